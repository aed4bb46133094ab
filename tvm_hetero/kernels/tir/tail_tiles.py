"""Last tiles that overlap their neighbours, instead of tiles that overhang.

Problem
    A loop of ``P`` points is done in tiles of ``T``, and T does not divide P. TVM's `split` then
    guards every value of every tile with ``x * T + i < P``, and takes vector stores behind such
    a guard apart: much of the speed is lost.

Answer
    Tile ``x`` starts at ``min(x * T, P - T)`` instead of ``x * T``. The last one begins earlier,
    computes some points a second time and stores the same values again; no tile needs a guard,
    none reads beyond the data, and every load and store is a whole vector. (With several cores
    two of them may store the same value at one place at about the same time. Either store gives
    it; each value is summed in the same order in both tiles.)

TVM's schedules have no primitive for that: a block's iterators must be affine. So a rule splits
with guards as usual and calls `overlap_tiles` as its last step, which rewrites every block inside
the loop over tiles: in its iterators ``x * T`` becomes the minimum, and the guards of the split go.
Other guards stay, with the minimum in them: of what is behind the loop (a slice) fewer than ``P``
points may be wanted, and a tile that ends at ``P`` would write beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym.analyzer import Analyzer

from tvm_hetero.kernels.tir.blocks import uses

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV


def overlap_tiles(sch: Schedule, loop: LoopRV, points: int, tile: int) -> None:
    """Let the tiles of ``loop`` overlap: ``tile`` points each, of ``points`` in all.

    Every block inside must compute a value from the point alone, so that computing it twice
    does no harm, and ``tile`` must not exceed ``points``. No step that looks at the blocks'
    iterators may follow.
    """
    if points % tile == 0:
        return
    old = sch.get(loop)
    body = _TailRewrite(old.loop_var, points, tile)(old.body)
    sch.state.replace(
        sch.get_sref(loop),
        tirx.For(
            old.loop_var, old.min, old.extent, old.kind, body, old.thread_binding, old.annotations
        ),
    )


class _TailRewrite:
    """Replaces ``x * tile`` by ``min(x * tile, points - tile)`` in the iterators of blocks."""

    def __init__(self, x: tirx.Var, points: int, tile: int) -> None:
        self.x = x
        self.points = points
        self.step = x * tile
        self.start = tirx.min(x * tile, tirx.const(points - tile, (x * tile).ty.dtype))
        self.analyzer = Analyzer()

    def __call__(self, body: tirx.Stmt) -> tirx.Stmt:
        return tvm_ffi.structural_map(body, (s_tir.SBlockRealize, self._realize))

    def _realize(self, realize: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
        values = [self._iterator(v) for v in realize.iter_values]
        guards = [g for c in _conjuncts(realize.predicate) if (g := self._guard(c)) is not None]
        guard = tirx.all(*guards) if guards else tirx.const(True, "bool")
        return s_tir.SBlockRealize(values, guard, realize.block)

    def _guard(self, guard: Any) -> Any:
        """The guard as the tiles stand now; None where none of them fails it."""
        if not uses(guard, self.x):
            return guard
        if not isinstance(guard, tirx.LT) or uses(guard.b, self.x):
            raise ValueError(f"{guard} is no upper bound of a point")
        if isinstance(guard.b, tirx.IntImm) and int(guard.b) == self.points:
            return None
        return self._iterator(guard.a) < guard.b

    def _iterator(self, value: Any) -> Any:
        if not uses(value, self.x):
            return value
        rest = self.analyzer.simplify(value - self.step)
        if uses(rest, self.x):
            raise ValueError(f"{value} is not {self.step} and something without {self.x}")
        return self.start + rest


def _conjuncts(guard: Any) -> list[Any]:
    if isinstance(guard, tirx.And):
        return _conjuncts(guard.a) + _conjuncts(guard.b)
    return [] if isinstance(guard, tirx.IntImm) and int(guard) else [guard]
