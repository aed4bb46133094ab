"""Work graphs: what a network computes, before any device is known.

A `LayerWork` becomes one task of a problem, a `Value` is a tensor that it makes. All figures are
for one batch element, except weights, which all elements share. `Builder` puts a graph together in
the order of execution, so that every family of the zoo reads like the network's own definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.arithmetic_units import WORK_KINDS, WorkKind
from tvm_hetero.problem.graph import Edge

# What the share of a device's peak depends on; inputs and outputs cost nothing.
Kind = WorkKind | Literal["input", "output"]
KINDS: tuple[Kind, ...] = (*WORK_KINDS, "input", "output")
# A problem of so many tasks takes a gigabyte; a slip of the keyboard shall not take all memory.
MAX_TASKS = 1_000_000
# Floating-point formats by their size: the vision networks are in 32 bits, language models in 16.
SINGLE, HALF = 4, 2


def check_count(where: str, count: float, of: str = "tasks", each: int = 1) -> None:
    """Refuse what would have more than `each` of something for each of `MAX_TASKS`, unmade.

    Raises
    ------
    UsageError
        If it has.
    """
    most = each * MAX_TASKS
    if count > most:
        raise UsageError(f"{where}: expected {most} {of} at most, got more; set a smaller size")


@dataclass(frozen=True)
class LayerWork:
    """One task.

    Attributes
    ----------
    id : unique within its graph; op : what it computes, for people; kind : see `KINDS`.
    flops : operations (a multiplication and an addition are two).
    traffic : bytes of inputs and outputs that go through memory.
    weights : bytes that are resident; share : the part of them that one element needs (rows of a
        table, chosen experts), independently of what other elements need.
    cache : bytes that are resident AND read for every batch element (keys and values).
    output : bytes that it writes for others or as a result.
    """

    id: str
    op: str
    kind: Kind
    flops: float = 0.0
    traffic: int = 0
    weights: int = 0
    share: float = 1.0
    cache: int = 0
    output: int = 0

    def weights_read(self, elements: int) -> float:
        """Bytes of weights that `elements` at once read, in expectation: each is read once."""
        if self.share >= 1:
            return float(self.weights)
        return self.weights * (1 - (1 - self.share) ** elements)

    def memory_traffic(self, elements: int) -> float:
        """Bytes that one execution of `elements` reads and writes."""
        return self.weights_read(elements) + elements * (self.traffic + self.cache)


@dataclass(frozen=True)
class WorkGraph:
    """A network: its work, the tensors between them, and the bytes of one number (4 or 2).

    `weight_width` are the bytes of a weight where these are other than those of a number.
    """

    name: str
    works: tuple[LayerWork, ...]
    edges: tuple[Edge, ...]
    width: int = SINGLE
    weight_width: float | None = None

    @property
    def flops(self) -> float:
        """Operations for one batch element."""
        return math.fsum(work.flops for work in self.works)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights, each task's counted once."""
        return sum(work.weights for work in self.works)

    @property
    def parameters(self) -> int:
        """Numbers in the weights."""
        return int(self.weight_bytes / (self.weight_width or self.width))


@dataclass(frozen=True)
class Value:
    """A tensor for one batch element: who makes it, its name, shape and bytes."""

    src: str
    tensor: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


class Builder:
    """Collects the work of a network whose numbers have `width` bytes, weights perhaps fewer."""

    def __init__(self, name: str, width: int = SINGLE, weight_width: float | None = None) -> None:
        self.name, self.width = name, width
        self.weight_width = width if weight_width is None else weight_width
        self._works: list[LayerWork] = []
        self._edges: list[Edge] = []
        self._names: dict[str, int] = {}

    def input(self, *shape: int, width: int | None = None) -> Value:
        """Data that arrives on the host."""
        size = math.prod(shape) * (width or self.width)
        return self._add(LayerWork(self._name("input"), "input", "input", output=size), (), shape)

    def output(self, *values: Value) -> None:
        """Results that are wanted on the host."""
        self._add(LayerWork(self._name("output"), "output", "output"), values, ())

    def add(
        self,
        op: str,
        kind: Kind,
        reads: Sequence[Value],
        shape: tuple[int, ...],
        *,
        flops: float = 0.0,
        weights: int = 0,
        share: float = 1.0,
        cache: int = 0,
        traffic: int | None = None,
        name: str = "",
    ) -> Value:
        """One task that reads `reads` and makes a tensor of `shape`.

        `weights`, `cache` and `traffic` (default: what is read and written) are counted in numbers,
        not bytes. `name` is the id, made of `op` by default.
        """
        output = math.prod(shape) * self.width
        moved = output + sum(value.bytes for value in reads)
        work = LayerWork(
            id=self._name(name or op),
            op=op,
            kind=kind,
            flops=float(flops),
            traffic=moved if traffic is None else traffic * self.width,
            weights=round(weights * self.weight_width),
            share=share,
            cache=cache * self.width,
            output=output,
        )
        return self._add(work, reads, shape)

    def parts(self, value: Value, shapes: Iterable[tuple[int, ...]]) -> list[Value]:
        """Divide a tensor into several of one maker, which can be moved one by one."""
        return [
            replace(value, tensor=f"{value.src}#{i}", shape=s, bytes=math.prod(s) * self.width)
            for i, s in enumerate(shapes)
        ]

    def build(self) -> WorkGraph:
        """The graph so far."""
        own = None if self.weight_width == self.width else self.weight_width
        return WorkGraph(self.name, tuple(self._works), tuple(self._edges), self.width, own)

    def _add(self, work: LayerWork, reads: Sequence[Value], shape: tuple[int, ...]) -> Value:
        if len(self._works) >= MAX_TASKS:
            check_count(self.name, len(self._works) + 1)
        self._works.append(work)
        for value in {value.tensor: value for value in reads}.values():
            self._edges.append(Edge(value.src, work.id, value.bytes, value.tensor))
        return Value(work.id, work.id, shape, work.output)

    def _name(self, wanted: str) -> str:
        """`wanted`, numbered from the second time on."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return f"{wanted}_{count}" if count else wanted
