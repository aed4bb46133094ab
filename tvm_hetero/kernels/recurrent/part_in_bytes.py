"""A part of the units (`recurrent.part`) whose weights are bytes, and the state its codes.

    sum  = whole[j] = sum over k of code[k] weight[k, j] - zero * total[j]      in 32 bits
    gate = contributed + float(sum) * (scale * factor[j])

That is what ONNX Runtime computes, so that rounding differs in the last bits of a gate alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.cpu.byte_dots import add_byte_products, load_codes
from tvm_hetero.kernels.recurrent.levels import Levels
from tvm_hetero.kernels.recurrent.part import RecurrentPart
from tvm_hetero.kernels.tir.statements import bind_value, broadcast, load, ramp, store

if TYPE_CHECKING:
    Expr = Any


@dataclass(frozen=True)
class BytesPart(RecurrentPart):
    """Such a part; ``levels`` are those of the state before the step."""

    levels: Levels

    def _begin(self, row: Expr, m: int, time: Expr) -> list[tirx.Stmt]:
        """Sums start with the zero point's part, but for the first split with nothing."""
        sums, tile, totals = self.frame.scratch.whole[m], self.frame.tile, self.frame.tensors.totals
        assert totals is not None
        nothing = tirx.const(0, "int32")
        less = broadcast(nothing - tirx.Cast("int32", self.levels.zero), tile.lanes)
        made = []
        for g, v in self._vectors:
            column = ramp(self._column(g, v), tile.lanes)
            made.append(store(sums, [self._sums(g, v)], less * load(totals, column)))
            zero = broadcast(nothing, tile.lanes)
            made += [store(sums, [self._sums(g, v, n)], zero) for n in range(1, tile.splits)]
        return made

    def _add(self, k: Expr, first: Expr, count: int) -> list[tirx.Stmt]:
        """What a word of the state's codes adds to all sums: as many words as there are splits."""
        tile, codes = self.frame.tile, self.frame.scratch.levels
        assert codes is not None
        made: list[tirx.Stmt] = []
        for split in range(tile.splits):
            word = k + split
            bound = [bind_value("code", load_codes(codes, first + m, word)) for m in range(count)]
            made += [bind for _, bind in bound]
            for g, v in self._vectors:
                weight, bind = bind_value("weight", self._weight(word, g, v))
                made.append(bind)
                for m, (value, _) in enumerate(bound):
                    sums, at = self.frame.scratch.whole[m], self._sums(g, v, split)
                    code = broadcast(value, tile.lanes)
                    added = add_byte_products(load(sums, at), code, weight, tile.dot, tile.lanes)
                    made.append(store(sums, [at], added))
        return made

    def _join(self, row: Expr, m: int, time: Expr) -> list[tirx.Stmt]:
        """Make numbers of the sums of all splits, and add what the input contributes."""
        scratch, lanes, factors = (
            self.frame.scratch,
            self.frame.tile.lanes,
            self.frame.tensors.factors,
        )
        assert factors is not None
        kind = "float32" if lanes == 1 else f"float32x{lanes}"
        made = self._joined(scratch.whole[m])
        for g, v in self._vectors:
            at, column = self._sums(g, v), ramp(self._column(g, v), lanes)
            factor = broadcast(self.levels.scale, lanes) * load(factors, column)
            added = tirx.Cast(kind, load(scratch.whole[m], at)) * factor
            made.append(store(scratch.gates[m], [at], self._contributed(time, row, g, v) + added))
        return made
