"""Tensors between tasks in bfloat16, where all who read them round them anyway.

A task in bfloat16 rounds its data (`tvm_hetero.kernels.narrow_kernel`). If all readers of a tensor
do, its writer may write it rounded: half the bytes for writer and readers, and the same numbers
everywhere (`tvm_hetero.kernels.bfloat16_tensors`). Such a tensor is an *edge* here. Writers are
tasks in bfloat16 themselves, and depthwise convolutions of float32, which mostly stand in front of
one.

A kernel has up to six forms: in float32 or in bfloat16, and its data or its output, or both, as
such an edge (`Form`). Which edges are worth it is for times to say
(`tvm_hetero.pipeline.precision.choose_edges`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvm import tirx

from tvm_hetero.kernels.bfloat16_tensors import (
    reads_bfloat16,
    rounded_parameters,
    writes_bfloat16,
)
from tvm_hetero.kernels.convolution.depthwise import is_depthwise
from tvm_hetero.kernels.narrow_kernel import NarrowKernel
from tvm_hetero.kernels.tir.conditions import conditions_of
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lowered_main import KernelCall, TensorSource

SUFFIX = "_bfloat16"
_READS, _WRITES = "_from_short", "_to_short"


@dataclass(frozen=True, order=True)
class Form:
    """How a kernel is computed.

    Attributes
    ----------
    narrow : in bfloat16.
    reads, writes : its data and its output are in bfloat16 in memory.
    """

    narrow: bool = False
    reads: bool = False
    writes: bool = False

    def name(self, kernel: str) -> str:
        """What the kernel of that name is called so."""
        edges = _READS * self.reads + _WRITES * self.writes
        return kernel + edges + SUFFIX * self.narrow


@dataclass(frozen=True)
class NarrowEdge:
    """A tensor that may be in bfloat16: positions of the task that makes it and of its readers."""

    writer: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class KernelForms:
    """The kernels of a lowered module, and the forms that they can have.

    Attributes
    ----------
    kernels : in float32, by their names.
    narrow : those that there are in bfloat16, by the same names.
    edges : in the order of their writers.
    """

    kernels: Mapping[str, Kernel]
    narrow: Mapping[str, NarrowKernel]
    edges: tuple[NarrowEdge, ...] = ()
    _made: dict[tuple[str, Form], tirx.PrimFunc] = field(default_factory=dict, repr=False)

    def function(self, kernel: str, form: Form) -> tirx.PrimFunc:
        """The kernel of that name in a form that it can have."""
        key = kernel, form
        if key not in self._made:
            self._made[key] = self._make(kernel, form)
        return self._made[key]

    def _make(self, name: str, form: Form) -> tirx.PrimFunc:
        flops = self.kernels[name].flops
        func = self.narrow[name].func if form.narrow else self.kernels[name].func
        if form.reads:
            (data,) = rounded_parameters(func)
            func = reads_bfloat16(func, data, flops)
        return writes_bfloat16(func, flops) if form.writes else func


def edge_forms(forms: KernelForms, kernel_of: Sequence[str]) -> list[tuple[str, Form]]:
    """The kernels, by name and form, that read or write an edge of some choice; each once.

    Parameters
    ----------
    forms : of the module.
    kernel_of : the kernel of each task.
    """
    writers = {edge.writer for edge in forms.edges}
    readers = {reader for edge in forms.edges for reader in edge.readers}
    found = dict.fromkeys(
        (name, Form(name in forms.narrow, reads, writes))
        for task, name in enumerate(kernel_of)
        for reads in (False, True)
        for writes in (False, True)
        if reads <= (task in readers) and writes <= (task in writers) and (reads or writes)
    )
    return list(found)


def find_forms(tasks: ExtractedTasks, narrow: Mapping[str, NarrowKernel]) -> KernelForms:
    """The forms of a lowered module's kernels, some of which there are in bfloat16."""
    forms = KernelForms({kernel.name: kernel for kernel in tasks.kernels}, narrow)
    edges = tuple(_edges(tasks, forms))
    return KernelForms(forms.kernels, narrow, edges, forms._made)


def _edges(tasks: ExtractedTasks, forms: KernelForms) -> Iterator[NarrowEdge]:
    main = tasks.main
    readers: dict[TensorSource, list[KernelCall]] = {}
    for call in main.calls:
        for root in main.reads(call):
            readers.setdefault(root, []).append(call)
    for call in main.calls:
        root = TensorSource(call.position, 0)
        calls = readers.get(root, [])
        if root in tasks.output_roots or not calls or not _may_write(call, forms):
            continue
        if all(_rounds(call, reader, tasks, forms) for reader in calls):
            yield NarrowEdge(call.position, tuple(reader.position for reader in calls))


def _may_write(call: KernelCall, forms: KernelForms) -> bool:
    """Whether a call's kernel can write its output in bfloat16."""
    name = call.kernel.name_hint
    func = forms.kernels[name].func
    _, wanted = conditions_of(func)
    if wanted or call.is_tuple or not (name in forms.narrow or is_depthwise(func)):
        return False
    try:
        forms.function(name, Form(name in forms.narrow, writes=True))
    except ValueError:
        return False
    return True


def _rounds(
    writer: KernelCall, reader: KernelCall, tasks: ExtractedTasks, forms: KernelForms
) -> bool:
    """Whether a reader, in bfloat16, rounds all that it reads of what the writer makes."""
    name = reader.kernel.name_hint
    if name not in forms.narrow:
        return False
    data = rounded_parameters(forms.narrow[name].func)
    root = TensorSource(writer.position, 0)
    places = [i for i, arg in enumerate(reader.args) if tasks.main.root(arg) == root]
    return list(data) == places and reader.args[places[0]].same_as(writer.var)


def form_of(task: int, narrow: Collection[int], edges: Collection[NarrowEdge]) -> Form:
    """The form of a task's kernel, some tasks being in bfloat16, and some edges."""
    reads = any(task in edge.readers for edge in edges)
    return Form(task in narrow, reads, any(edge.writer == task for edge in edges))


def usable_edges(
    forms: KernelForms, kernel_of: Sequence[str], narrow: Collection[int]
) -> list[NarrowEdge]:
    """The edges all of whose readers are among the tasks in bfloat16, and the writer too, where
    there is that choice.
    """
    return [
        edge
        for edge in forms.edges
        if all(reader in narrow for reader in edge.readers)
        and (edge.writer in narrow or kernel_of[edge.writer] not in forms.narrow)
    ]
