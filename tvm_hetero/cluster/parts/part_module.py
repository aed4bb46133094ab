"""Write a part of a lowered module as a module of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES, RANGES, STATE_SETS, STATES
from tvm_hetero.passes.emit_views import Place, ViewEmitter
from tvm_hetero.passes.kernel_choices import choices_of, traces_of, with_choices
from tvm_hetero.passes.lowered_main import LoweredMain, Root
from tvm_hetero.passes.states import ranges_of

_HERE: Place = (0, 0)


@dataclass(frozen=True)
class Cut:
    """What a part is, in terms of the whole function.

    Attributes
    ----------
    node, devices : where.
    calls : positions of its calls, in order.
    ins : tensors that it reads from outside, but for states.
    states : states that its calls keep, by parameter.
    outs : tensors that other parts read.
    results : outputs of the model that are made here, by number.
    """

    node: str
    devices: tuple[str, ...]
    calls: tuple[int, ...]
    ins: tuple[Root, ...]
    states: tuple[int, ...]
    outs: tuple[Root, ...]
    results: tuple[int, ...]

    def made(self) -> Iterator[tuple[int, Root]]:
        """The tensors that other parts read, by the number of the part's output."""
        yield from enumerate(self.outs)


def part_module(mod: tvm.IRModule, main: LoweredMain, cut: Cut) -> tuple[tvm.IRModule, list[str]]:
    """The module of a part, and the names of its inputs but for the states.

    Its parameters are `cut.ins`, then the states; it returns `cut.outs`, then the results.
    """
    return _PartWriter(mod, main, cut).write()


class _PartWriter:
    def __init__(self, mod: tvm.IRModule, main: LoweredMain, cut: Cut) -> None:
        self.mod = mod
        self.main = main
        self.cut = cut
        self.builder = relax.BlockBuilder()
        self.env: dict[Root, Any] = {}
        self.made: dict[int, relax.Var] = {}
        self.kernels: dict[str, tvm.ir.GlobalVar] = {}

    def write(self) -> tuple[tvm.IRModule, list[str]]:
        cut, main = self.cut, self.main
        roots = [*cut.ins, *(Root(None, i) for i in cut.states)]
        names = self._names(roots)
        params = []
        for number, root in enumerate(roots):
            ty = main.type_of(root)
            params.append(relax.Var(f"p{number}", relax.TensorType(ty.shape, ty.dtype)))
            self.env[root] = params[-1]
        emitter = ViewEmitter(self.builder, main, self._tensor, lambda const, _: const)
        with self.builder.function("main", params, attrs=self._attributes(names)):
            with self.builder.dataflow():
                for position in cut.calls:
                    call = main.calls[position]
                    var = emitter.call(call, self._kernel(call), call.expr.ty_args[0], 0, (0,))
                    self.made[position] = var
                    if not call.is_tuple:
                        self.env[Root(position, 0)] = var
                values = [self._tensor(root, _HERE) for root in cut.outs]
                values += [emitter.value(main.results()[k], _HERE) for k in cut.results]
                out = self.builder.emit_output(
                    values[0] if len(values) == 1 else relax.Tuple(values)
                )
            self.builder.emit_func_output(out)
        return self._with_choices(self.builder.get()), names[: len(cut.ins)]

    def _names(self, roots: list[Root]) -> list[str]:
        """Inputs of the whole keep their names; tensors have those of the task graph."""
        own = set(self.main.inputs)
        names = []
        for root in roots:
            name = self.main.inputs[root.index] if root.call is None else ""
            if root.call is not None:
                name = self.main.tensor_name(root)
                while name in own:  # a model may call its inputs what it likes
                    name += "'"
            names.append(name)
        return names

    def _attributes(self, names: list[str]) -> dict[str, Any]:
        """What the whole's ``main`` says of itself, where it is true of the part."""
        attrs = self.main.function.attrs
        kept = dict(attrs) if attrs else {}
        for name in (STATES, OUTPUT_NAMES):
            kept.pop(name, None)
        count = len(self.cut.outs) + len(self.cut.results)
        kept |= {INPUT_NAMES: names, OUTPUT_NAMES: [f"out{k}" for k in range(count)]}
        if self.cut.states:
            kept[STATES] = names[len(self.cut.ins) :]
        else:
            kept.pop(STATE_SETS, None)
        if RANGES in kept:
            own = {n: list(r) for n, r in ranges_of(self.main).items() if n in names}
            kept[RANGES] = json.dumps(own)
        return kept

    def _tensor(self, root: Root, _place: Place) -> Any:
        if root not in self.env:
            assert root.call is not None  # every input is there from the start
            item = relax.TupleGetItem(self.made[root.call], root.index)
            self.env[root] = self.builder.emit(item)
        return self.env[root]

    def _kernel(self, call: Any) -> tvm.ir.GlobalVar:
        name = call.kernel.name_hint
        if name not in self.kernels:
            self.kernels[name] = self.builder.add_func(self.mod[call.kernel], name)
        return self.kernels[name]

    def _with_choices(self, module: tvm.IRModule) -> tvm.IRModule:
        """What was chosen for the part's kernels, as in the whole."""
        choices = [
            choice
            for choice in choices_of(self.mod)
            if choice.kernel in self.kernels and choice.device in self.cut.devices
        ]
        traces = {k: t for k, t in traces_of(self.mod).items() if k in self.kernels}
        return with_choices(module, choices, traces)
