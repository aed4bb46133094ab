"""Chains of element-wise operators are cut where one kernel would take too long to compile.

TVM fuses up to 256 operators. To schedule such a kernel takes time that grows with the square of
them, and functions (exp, tanh, ...) of functions are written out by TVM's code generator as often
as their arguments occur: 20 operators with 12 functions among them took half a minute, 50 had not
ended after a minute. So of a long chain some operators are marked as opaque, which no fusion
passes: a kernel of its own, whose result is written to memory.

Before and after: ``main`` with calls of kernels that bear patterns of operators
(`AnnotateTIROpPattern`).
"""

from __future__ import annotations

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_hetero.kernels.tir.vector_math import MOST_WRITTEN, written_weight

# Operators of a chain. Layers of real networks have less than twenty between two products.
_LONGEST = 64
_PATTERN = "op_pattern"
_INJECTIVE, _OPAQUE = 2, 8

_Length = tuple[int, int]  # operators of a chain, and occurrences of its first value
_NONE: _Length = (0, 1)


@tvm.transform.module_pass(opt_level=0, name="LimitFusion")
class LimitFusion:
    """Cut chains of operators that would be too long as one kernel."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Limit one module; see the class. One without long chains comes back as it is."""
        cuts = _find_cuts(mod)
        return _Cutter(mod, cuts).run() if cuts else mod


def _find_cuts(mod: tvm.IRModule) -> set[relax.Var]:
    """The variables of ``main`` that a kernel of its own is to make."""
    lengths: dict[relax.Var, _Length] = {}
    weights: dict[tvm.ir.GlobalVar, int] = {}
    cuts: set[relax.Var] = set()
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            func = _injective(mod, binding.value)
            if func is None:
                continue
            kernel, operands = binding.value.args[0], binding.value.args[1].fields
            before = [lengths.get(v, _NONE) for v in operands if isinstance(v, relax.Var)]
            if kernel not in weights:
                weights[kernel] = written_weight(func.body)
            length = 1 + max((n for n, _ in before), default=0)
            weight = weights[kernel] * max((w for _, w in before), default=1)
            if length > _LONGEST or weight > MOST_WRITTEN:
                cuts.add(binding.var)
            else:
                lengths[binding.var] = length, weight
    return cuts


def _injective(mod: tvm.IRModule, value: relax.Expr) -> tirx.PrimFunc | None:
    """The function that a call of a kernel calls, if it could be fused with what it reads."""
    if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_tir"):
        return None
    func = mod[value.args[0]]
    pattern = func.attrs.get(_PATTERN) if func.attrs is not None else None
    return func if pattern is not None and int(pattern) <= _INJECTIVE else None


@mutator
class _Cutter(PyExprMutator):  # type: ignore[misc]
    """Give what is cut functions of their own, which are opaque."""

    def __init__(self, mod: tvm.IRModule, cuts: set[relax.Var]) -> None:
        super().__init__(mod)
        self.cuts = cuts

    def run(self) -> tvm.IRModule:
        """Rewrite ``main``."""
        mod = self.builder_.get()
        main = mod["main"]
        updated = self.visit_expr(main)
        if main.attrs is not None and len(main.attrs):
            updated = updated.with_attrs(dict(main.attrs.items()))
        self.builder_.update_func(mod.get_global_var("main"), updated)
        return self.builder_.get()

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Call an opaque function where the chain is cut."""
        if binding.var not in self.cuts:
            super().visit_var_binding_(binding)
            return
        call = self.visit_expr(binding.value)
        kernel = call.args[0]
        func = self.builder_.get()[kernel].with_attr(_PATTERN, _OPAQUE)
        opaque = self.builder_.add_func(func, kernel.name_hint)
        cut = relax.Call(call.op, [opaque, *call.args[1:]], call.attrs, call.ty_args)
        self.reemit(binding, cut)

    def reemit(self, binding: relax.VarBinding, value: relax.Call) -> None:
        """Bind the variable to another call of the same type."""
        emit = (
            self.builder_.emit
            if isinstance(binding.var, relax.DataflowVar)
            else self.builder_.emit_output
        )
        self.set_var_remap(binding.var, emit(value, binding.var.name))
