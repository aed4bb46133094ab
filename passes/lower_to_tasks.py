"""LowerToTasks: from a Relax model to fused kernels and views, ready to be placed.

Before: one function ``main`` of high-level operators, weights bound as constants (what the
front ends give). After: the same function as one dataflow block of

    ``R.call_tir`` on fused PrimFuncs     the tasks; equal kernels share one GlobalVar
    ``relax.reshape``, tuple items,       views, which cost nothing
    aliases and tuples

No PrimFunc is scheduled and none is bound to a device: `tvm_hetero.kernels.schedule_kernel`
schedules each for the target on which it is to run. What all targets share, the layout of the
packed weights, is decided here, and that is why the pass wants to know the targets.

Phases: `_Prepare` computes what is constant and picks our kernels for convolutions and products
with constant weights; TVM's own passes then legalise the rest, fuse, and find the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.constant_folding import fold
from tvm_hetero.kernels.convolution.packing import packing_units
from tvm_hetero.kernels.legalize import RULES, Legalization
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.passes.conditional_branches import mark_branches
from tvm_hetero.passes.copy_constant_outputs import copy_constant_outputs
from tvm_hetero.passes.kernelless_operators import kernelless, refuse_kernelless
from tvm_hetero.passes.limit_fusion import LimitFusion
from tvm_hetero.passes.lowered_main import bindings
from tvm_hetero.passes.pins import pin_hinted_kernels
from tvm_hetero.util.deep_stack import call_on_deep_stack
from tvm_hetero.util.tvm_state import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Bindings of a main of which passes may descend deeper than a thread's usual stack lets them.
_LONG = 2000
_VIEWS = frozenset({"relax.reshape"})


@tvm.transform.module_pass(opt_level=0, name="LowerToTasks")
class LowerToTasks:
    """Lower ``main`` to kernels and views.

    A lowered module comes back as it is, but for outputs that no kernel makes (they are copied).

    Parameters
    ----------
    targets
        Every target on which a kernel may run later. None: any CPU, AVX-512 included.
    plain_sums
        No convolution may be computed by Winograd's tiles
        (`tvm_hetero.kernels.convolution.winograd.kernel`).

    Raises
    ------
    ModelError
        The module has no ``main``, or an operator of it has no kernel.
    """

    def __init__(
        self, targets: Sequence[tvm.target.Target] | None = None, plain_sums: bool = False
    ) -> None:
        self.units = packing_units(targets)
        self.plain_sums = plain_sums
        self.on_gpus = any(str(t.kind.name) != "llvm" for t in targets or ())

    @one_thread
    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Lower one module; see the class."""
        if "main" not in [gv.name_hint for gv in mod.get_global_vars()]:
            names = sorted(gv.name_hint for gv in mod.get_global_vars())
            raise ModelError(f"the module has the functions {names}; one named 'main' is needed")
        if is_lowered(mod):
            return copy_constant_outputs(mod)
        mod = _before()(mod)
        mod = _Prepare(mod, self.units, self.plain_sums, self.on_gpus).run()
        try:
            lowered = _apply(_after(), mod)
        except (RuntimeError, TypeError, ValueError) as error:
            refuse_kernelless(mod, error)
        lowered = pin_hinted_kernels(lowered)
        _require_lowered(lowered)
        return copy_constant_outputs(mark_branches(lowered))


def is_lowered(mod: tvm.IRModule) -> bool:
    """True where ``main`` consists of kernels and views alone."""
    return not _foreign_operators(mod)


def _foreign_operators(mod: tvm.IRModule) -> list[str]:
    """Names of the operators in ``main`` that are neither kernels nor views."""
    names = {
        str(getattr(binding.value.op, "name", binding.value.op))
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    }
    return sorted(names - _VIEWS - {"relax.call_tir"})


def _require_lowered(mod: tvm.IRModule) -> None:
    foreign = _foreign_operators(mod)
    if foreign:
        raise ModelError(
            f"there is no kernel for {', '.join(name.removeprefix('relax.') for name in foreign)}. "
            "Put other operators in the place of it, or run a pass that takes it apart before "
            "LowerToTasks"
        )


def _before() -> tvm.transform.Pass:
    return tvm.transform.Sequential(
        [relax.transform.ConvertToDataflow(), relax.transform.CanonicalizeBindings()]
    )


def _after() -> tvm.transform.Pass:
    transform = relax.transform
    return tvm.transform.Sequential(
        [
            transform.DecomposeOpsForInference(),
            transform.CanonicalizeBindings(),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            LimitFusion(),
            transform.FuseOps(),
            transform.FuseTIR(),
            transform.RewriteDataflowReshape(),
            transform.DeadCodeElimination(["main"]),
        ]
    )


def _apply(sequence: tvm.transform.Pass, mod: tvm.IRModule) -> tvm.IRModule:
    """Apply passes; on long networks where they have room to descend (FuseOps does)."""
    if sum(1 for _ in bindings(mod["main"])) < _LONG:
        return sequence(mod)
    context = tvm.transform.PassContext.current()  # of this thread alone

    def apply() -> tvm.IRModule:
        with context:
            return sequence(mod)

    return call_on_deep_stack(apply)


@mutator
class _Prepare(PyExprMutator):  # type: ignore[misc]
    """Fold constants and choose kernels for what has constant weights, in one walk over main."""

    def __init__(
        self, mod: tvm.IRModule, units: Sequence[VectorUnit], plain_sums: bool, on_gpus: bool
    ) -> None:
        super().__init__(mod)
        self.units = units
        self.plain_sums = plain_sums
        self.on_gpus = on_gpus
        self.folded: dict[relax.Var, NDArray[Any]] = {}
        self.emitted: dict[relax.Var, GenericConst] = {}

    def run(self) -> tvm.IRModule:
        """Rewrite ``main``; what became unused goes with DeadCodeElimination."""
        gv = next(v for v in self.builder_.get().get_global_vars() if v.name_hint == "main")
        main = self.builder_.get()[gv]
        updated = self.visit_expr(main)
        if main.attrs is not None and len(main.attrs):
            updated = updated.with_attrs(dict(main.attrs.items()))
        self.builder_.update_func(gv, updated)
        return relax.transform.DeadCodeElimination(["main"])(self.builder_.get())

    def known(self, expr: relax.Expr) -> NDArray[Any] | None:
        """The value of an expression, where it is constant."""
        if isinstance(expr, GenericConst):
            return array_of(expr.value)
        return self.folded.get(expr) if isinstance(expr, relax.Var) else None

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Fold the binding away, or rewrite its value."""
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(binding.var, relax.DataflowVar):
            constant = fold(value, self.known)
            if constant is not None:
                self.folded[binding.var] = constant
                return
        super().visit_var_binding_(binding)

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        """A folded variable becomes a constant where an operator really reads it."""
        if var not in self.folded:
            return super().visit_dataflow_var_(var)
        if var not in self.emitted:
            value = np.array(self.folded[var], order="C")
            self.emitted[var] = relax.const(tvm.runtime.tensor(value))
        return self.emitted[var]

    def as_emitted(self, expr: relax.Expr) -> relax.Expr:
        """A folded variable as a constant, any other argument as it is."""
        folded = isinstance(expr, relax.Var) and expr in self.folded
        return self.visit_expr(expr) if folded else expr

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Try our own rules; TVM's legalisation takes what is left."""
        rule = RULES.get(getattr(call.op, "name", ""))
        if rule is None:
            return super().visit_call_(call)
        use = Legalization(
            self.builder_, self.known, self.units, self.plain_sums, self.as_emitted, self.on_gpus
        )
        rewritten = self._with_rewritten(call)
        try:
            result = rule(rewritten, use)
        except (RuntimeError, TypeError, ValueError) as error:
            raise kernelless(call, error) from error
        return super().visit_call_(call) if result is None else result

    def _with_rewritten(self, call: relax.Call) -> relax.Call:
        """The call with its arguments rewritten; constants stay what `known` knows them by."""
        args = [a if self.known(a) is not None else self.visit_expr(a) for a in call.args]
        return self.builder_.normalize(relax.Call(call.op, args, call.attrs, call.ty_args))
