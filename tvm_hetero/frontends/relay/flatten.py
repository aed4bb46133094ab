"""Analysis: a program becomes a straight list of operators, in an order in which they can run.

Functions are inlined where they are called, tuples are taken apart where they are made, ``let``
is the value that it binds, and annotations become notes on the operators under them. What is
left is what a graph of tasks needs: inputs, constants, and operators on them.

    what an expression becomes                  `flat_values`
    what the file says of types                 `type_claims`
    what annotations say of devices             `devices`

Inlining can make much of little: ten functions that each call the one before twice are a
thousand calls. So calls are counted, as is everything that is looked at, and a function that calls
itself is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core import program as relay
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, ReadBudget, RelayLimits
from tvm_hetero.frontends.relay.core.program import RelayProgram, Var
from tvm_hetero.frontends.relay.core.trampoline import Walk, run
from tvm_hetero.frontends.relay.devices import ANNOTATIONS, Devices
from tvm_hetero.frontends.relay.flat_values import (
    Closure,
    FlatItem,
    FlatStep,
    Input,
    Pack,
    Scope,
    Value,
    leaves,
)
from tvm_hetero.frontends.relay.gc_pause import paused
from tvm_hetero.frontends.relay.type_claims import Claim, Claims
from tvm_hetero.util.untrusted_names import printable

# What a function may note about itself that says nothing about what it computes. (``Compiler``
# is who was to compile it; its body says what it computes all the same.)
_NOTES = frozenset(
    {"Primitive", "Composite", "PartitionedFromPattern", "Inline", "Compiler", "hash",
     "global_symbol", "SkipOptimization", "relay.reshape_only", "src_layout", "dst_layout",
     "data_layout", "kernel_layout", "out_layout", "executor", "runtime", "target",
     "virtual_device", "Closure", "InlineFunction"}
)  # fmt: skip
_MOST_WITHIN = 200


@dataclass
class Flat:
    """A program without functions: `steps` in order, and what comes out.

    Attributes
    ----------
    claims : list of Claim
        What the file says of the types of values, beside the types of the steps.
    unheeded : list of str
        Devices that the program names for operators that read a value: nobody respects them.
    """

    inputs: list[Input]
    steps: list[FlatStep]
    output: Value
    result: relay.Type | None = None
    claims: list[Claim] = field(default_factory=list)
    unheeded: list[str] = field(default_factory=list)


@paused()
def flatten(program: RelayProgram, limits: RelayLimits = DEFAULT_LIMITS) -> Flat:
    """Return the operators of a program's ``main`` with all functions inlined.

    Raises
    ------
    ModelError
        Control flow, recursion, a function as a result, more operators than allowed, or a type
        in the file that cannot be that of what it is about.
    """
    walker = _Flattener(program, limits)
    return walker.main()


class _Flattener:
    def __init__(self, program: RelayProgram, limits: RelayLimits) -> None:
        self.program, self.limits = program, limits
        self.steps: list[FlatStep] = []
        self.budget = ReadBudget(limits.work)
        self.claims = Claims(self.budget)
        self.devices = Devices(self.budget)
        self.entered = 0
        self.active: list[int] = []

    def main(self) -> Flat:
        main = self.program.functions["main"]
        _check_notes(main, "main")
        inputs = [Input(param) for param in main.params]
        for param in main.params:
            self.devices.variable(param, "main")
        scope = Scope(None, {id(i.var): i for i in inputs})
        output = run(self.value(main.body, scope))
        if isinstance(output, Closure):
            raise ModelError("'main' returns a function; a graph returns tensors")
        unheeded = list(self.devices.unheeded)
        return Flat(inputs, self.steps, output, main.result, self.claims.found, unheeded)

    def value(self, expr: relay.Expr, scope: Scope) -> Any:
        """The value of an expression in a scope, or the walk that computes it (`run` takes
        either). Each expression is computed once in each scope.
        """
        found = scope.find(id(expr))
        if found is None:
            return self._valued(expr, scope)
        return found

    def _valued(self, expr: relay.Expr, scope: Scope) -> Walk:
        whole = id(expr)
        while isinstance(expr, relay.Let):  # a loop: programs in A-normal form are all lets
            self.budget.spend(1)
            value = yield self.value(expr.value, scope)
            self.claims.note(value, expr.var.type, expr.var)
            self.devices.variable(expr.var)
            scope.values[id(expr.var)] = value
            expr = expr.body
        found = scope.find(id(expr))
        if found is None:
            self.budget.spend(1)
            found = scope.values[id(expr)] = yield from self._computed(expr, scope)
        scope.values[whole] = found
        return found

    def _computed(self, expr: relay.Expr, scope: Scope) -> Walk:
        if isinstance(expr, relay.Constant):
            return expr
        if isinstance(expr, relay.RelayCall):
            return (yield from self._call(expr, scope))
        if isinstance(expr, relay.Tuple):
            return Pack((yield from self._all(expr.fields, scope)))
        if isinstance(expr, relay.ProgramItem):
            value = yield self.value(expr.tuple, scope)
            return _item(value, expr)
        if isinstance(expr, relay.Function):
            _check_notes(expr, expr.where)
            return Closure(expr, scope)
        if isinstance(expr, relay.GlobalName):
            return Closure(self._function(expr), Scope())
        raise ModelError(_not_computable(expr))

    def _function(self, name: relay.GlobalName) -> relay.Function:
        if name.name not in self.program.functions:
            raise ModelError(f"the program calls '@{printable(name.name)}', which it has not")
        function = self.program.functions[name.name]
        _check_notes(function, f"@{printable(name.name)}")
        return function

    def _all(self, exprs: list[relay.Expr], scope: Scope) -> Walk:
        self.budget.spend(len(exprs))
        found: list[Value] = []
        for expr in exprs:
            value = yield self.value(expr, scope)
            found.append(value)
        return found

    def _call(self, call: relay.RelayCall, scope: Scope) -> Walk:
        args = yield from self._all(call.args, scope)
        if isinstance(call.callee, relay.Operator):
            name = call.callee.name
            if name in ANNOTATIONS:
                return self._annotated(call, name, args)
            return self._step(call, name, args)
        callee = yield self.value(call.callee, scope)
        if not isinstance(callee, Closure):
            raise ModelError(f"{call.where}: what is called is no function")
        result = yield from self._inlined(callee, args, call)
        self.claims.note(result, call.type, call.where)
        return result

    def _step(self, call: relay.RelayCall, name: str, args: list[Value]) -> FlatStep:
        if len(self.steps) >= self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} operators once functions are inlined")
        for arg in args:
            if isinstance(arg, Pack):
                self.budget.spend(len(leaves(arg)))
        step = FlatStep(name, args, call.attributes, call.type, call.where)
        self.steps.append(step)
        return step

    def _annotated(self, call: relay.RelayCall, name: str, args: list[Value]) -> Value:
        """The value under an annotation, which says what it says about its operator."""
        if len(args) != 1:
            raise ModelError(f"{call.where}: {name} has {len(args)} arguments, expected 1")
        self.claims.note(args[0], call.type, call.where)
        self.devices.annotation(call, name, args[0])
        return args[0]

    def _inlined(self, callee: Closure, args: list[Value], call: relay.RelayCall) -> Walk:
        function, depth = callee.function, callee.scope.depth + 1
        self._enter(function, depth, call)
        if len(function.params) != len(args):
            raise ModelError(
                f"{call.where}: {len(args)} arguments for {len(function.params)} parameters"
            )
        inner = Scope(callee.scope, {}, depth)
        for param, arg in zip(function.params, args, strict=True):
            self.claims.note(arg, param.type, param, call.where)
            self.devices.variable(param, call.where)
            inner.values[id(param)] = arg
        self.active.append(id(function))
        result = yield self.value(function.body, inner)
        self.active.pop()
        self.claims.note(result, function.result, call.where)
        return result

    def _enter(self, function: relay.Function, depth: int, call: relay.RelayCall) -> None:
        """Count a call of a function; refuse one within itself, and one too many."""
        self.entered += 1
        within = max(len(self.active), depth)
        if id(function) in self.active or within > _MOST_WITHIN:
            raise ModelError(
                f"{call.where}: a function calls itself (or {within} are "
                "within each other); loops cannot be partitioned: unroll it before saving"
            )
        if self.entered > self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} calls of functions")


def _item(value: Value, expr: relay.ProgramItem) -> Value:
    if isinstance(value, Pack):
        if not 0 <= expr.index < len(value.values):
            raise ModelError(
                f"{expr.where}: field {expr.index} of a tuple of {len(value.values)}; damaged"
            )
        return value.values[expr.index]
    if isinstance(value, FlatStep):
        return FlatItem(value, expr.index)
    raise ModelError(f"{expr.where}: a field of what is no tuple; a parameter must be a tensor")


def _check_notes(function: relay.Function, name: str) -> None:
    unknown = sorted(set(function.attributes) - _NOTES)
    if unknown:
        raise ModelError(
            f"function {name} has attribute '{printable(unknown[0])}', whose meaning is not "
            "known here; save the module before the pass that adds it"
        )


def _not_computable(expr: object) -> str:
    if isinstance(expr, relay.Unsupported):
        return (
            f"{expr.where}: '{printable(expr.name)}' is not supported: a graph of tasks has "
            "neither control flow nor references; save the module with one fixed path"
        )
    if isinstance(expr, Var):
        return f"variable '{printable(expr.name)}' is read where it is not bound; damaged"
    return f"{printable(type(expr).__name__)} where a value is expected; the file is damaged"
