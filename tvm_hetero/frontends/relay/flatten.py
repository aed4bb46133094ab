"""Analysis: a program becomes a straight list of operators, in an order in which they can run.

Functions are inlined where they are called, tuples are taken apart where they are made, ``let``
is the value that it binds, and annotations become notes on the operators under them. What is
left is what a graph of tasks needs: inputs, constants, and operators on them.

    Value    an `Input`, a `Constant`, a `Step` (what an operator makes), an `Item` of one that
             makes a tuple, a `Pack` of values, or a `Closure` (a function not called yet)

Inlining can make much of little: ten functions that each call the one before twice are a
thousand calls. So calls are counted, and a function that calls itself is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.names import printable
from tvm_hetero.frontends.relay import program as relay
from tvm_hetero.frontends.relay.limits import DEFAULT_LIMITS, Limits
from tvm_hetero.frontends.relay.program import Constant, Device, Program, Var
from tvm_hetero.frontends.relay.walk import Walk, run

# What a function may note about itself that says nothing about what it computes. (``Compiler``
# is who was to compile it; its body says what it computes all the same.)
_NOTES = frozenset(
    {"Primitive", "Composite", "PartitionedFromPattern", "Inline", "Compiler", "hash",
     "global_symbol", "SkipOptimization", "relay.reshape_only", "src_layout", "dst_layout",
     "data_layout", "kernel_layout", "out_layout", "executor", "runtime", "target",
     "virtual_device", "Closure", "InlineFunction"}
)  # fmt: skip
_MOST_LEAVES = 10_000
_ON_DEVICE = frozenset({"on_device", "annotation.on_device"})
_SAME = frozenset(
    {"device_copy", "copy", "identity", "annotation.stop_fusion", "annotation.cast_hint",
     "annotation.compiler_begin", "annotation.compiler_end", "annotation.checkpoint"}
)  # fmt: skip
ANNOTATIONS = _ON_DEVICE | _SAME


@dataclass(eq=False)
class Input:
    """A parameter of ``main``."""

    var: Var


@dataclass(eq=False)
class Step:
    """One operator: what it is called with, and where in the program it stands."""

    operator: str
    args: list[Value]
    attributes: Mapping[str, Any]
    type: relay.Type | None
    where: str
    device: Device | None = None


@dataclass(eq=False)
class Item:
    """One output of an operator that makes several."""

    step: Step
    index: int


@dataclass(eq=False)
class Pack:
    """Several values as one."""

    values: list[Value]


@dataclass(eq=False)
class Closure:
    """A function, and the scope in which it was written."""

    function: relay.Function
    scope: Scope


Value: TypeAlias = Input | Constant | Step | Item | Pack | Closure


@dataclass
class Scope:
    """What variables and expressions are in one call of a function."""

    outer: Scope | None = None
    values: dict[int, Value] = field(default_factory=dict)

    def find(self, key: int) -> Value | None:
        """The value of an expression here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.values:
                return scope.values[key]
            scope = scope.outer
        return None


@dataclass
class Flat:
    """A program without functions: `steps` in order, and what comes out."""

    inputs: list[Input]
    steps: list[Step]
    output: Value
    result: relay.Type | None = None


def flatten(program: Program, limits: Limits = DEFAULT_LIMITS) -> Flat:
    """Return the operators of a program's ``main`` with all functions inlined.

    Raises
    ------
    ModelError
        Control flow, recursion, a function as a result, or more operators than allowed.
    """
    walker = _Flattener(program, limits)
    return walker.main()


class _Flattener:
    def __init__(self, program: Program, limits: Limits) -> None:
        self.program, self.limits = program, limits
        self.steps: list[Step] = []
        self.entered = 0
        self.active: list[int] = []

    def main(self) -> Flat:
        main = self.program.functions["main"]
        _check_notes(main, "main")
        inputs = [Input(param) for param in main.params]
        scope = Scope(None, {id(i.var): i for i in inputs})
        output = run(self.value(main.body, scope))
        if isinstance(output, Closure):
            raise ModelError("'main' returns a function; a graph returns tensors")
        return Flat(inputs, self.steps, output, main.result)

    def value(self, expr: relay.Expr, scope: Scope) -> Walk:
        """The value of an expression in a scope; each expression is computed once in each."""
        while isinstance(expr, relay.Let):  # a loop: programs in A-normal form are all lets
            scope.values[id(expr.var)] = yield self.value(expr.value, scope)
            expr = expr.body
        found = scope.find(id(expr))
        if found is None:
            found = yield self._computed(expr, scope)
            scope.values[id(expr)] = found
        return found

    def _computed(self, expr: relay.Expr, scope: Scope) -> Walk:
        if isinstance(expr, relay.Constant):
            return expr
        if isinstance(expr, relay.Call):
            return (yield self._call(expr, scope))
        if isinstance(expr, relay.Tuple):
            return Pack((yield self._all(expr.fields, scope)))
        if isinstance(expr, relay.Item):
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
        found: list[Value] = []
        for expr in exprs:
            value = yield self.value(expr, scope)
            found.append(value)
        return found

    def _call(self, call: relay.Call, scope: Scope) -> Walk:
        args = yield self._all(call.args, scope)
        if not isinstance(call.callee, relay.Operator):
            callee = yield self.value(call.callee, scope)
            if not isinstance(callee, Closure):
                raise ModelError(f"{call.where}: what is called is no function")
            return (yield self._inlined(callee, args, call))
        if call.callee.name in ANNOTATIONS:
            return _annotated(call, call.callee.name, args)
        if len(self.steps) >= self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} operators once functions are inlined")
        step = Step(call.callee.name, args, call.attributes, call.type, call.where)
        self.steps.append(step)
        return step

    def _inlined(self, callee: Closure, args: list[Value], call: relay.Call) -> Walk:
        function = callee.function
        self.entered += 1
        if id(function) in self.active or len(self.active) > 200:
            raise ModelError(
                f"{call.where}: a function calls itself (or {len(self.active)} are within each "
                "other); loops cannot be partitioned: unroll it before saving"
            )
        if self.entered > self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} calls of functions")
        if len(function.params) != len(args):
            raise ModelError(
                f"{call.where}: {len(args)} arguments for {len(function.params)} parameters"
            )
        inner = Scope(callee.scope)
        inner.values.update({id(p): a for p, a in zip(function.params, args, strict=True)})
        self.active.append(id(function))
        result = yield self.value(function.body, inner)
        self.active.pop()
        return result


def _item(value: Value, expr: relay.Item) -> Value:
    if isinstance(value, Pack):
        if not 0 <= expr.index < len(value.values):
            raise ModelError(
                f"{expr.where}: field {expr.index} of a tuple of {len(value.values)}; damaged"
            )
        return value.values[expr.index]
    if isinstance(value, Step):
        return Item(value, expr.index)
    raise ModelError(f"{expr.where}: a field of what is no tuple; a parameter must be a tensor")


def _annotated(call: relay.Call, name: str, args: list[Value]) -> Value:
    """The value under an annotation; its operator is to run on the device that is named."""
    if len(args) != 1:
        raise ModelError(f"{call.where}: {name} has {len(args)} arguments, expected 1")
    device = _device(call.attributes, name)
    if device is not None and call.attributes.get("constrain_body", True):
        _mark(args[0], device)
    return args[0]


def _device(attributes: Mapping[str, Any], name: str) -> Device | None:
    """The device that an annotation names, in any version's way of naming it."""
    for key in ("virtual_device", "se_scope", "src_virtual_device", "src_se_scope"):
        if isinstance(attributes.get(key), Device):
            return attributes[key]
    for key in ("device_type", "src_dev_type"):
        kind = attributes.get(key)
        if isinstance(kind, int) and kind > 0:
            return Device(kind)
    return None


def _mark(value: Value, device: Device) -> None:
    for each in leaves(value):
        step = each.step if isinstance(each, Item) else each
        if isinstance(step, Step):
            step.device = device


def leaves(value: Value, most: int = _MOST_LEAVES) -> list[Value]:
    """What a value consists of, tuples within tuples taken apart, in order.

    Raises
    ------
    ModelError
        There are more than `most`: thirty tuples, each twice the one before, are a billion.
    """
    found: list[Value] = []
    stack = [value]
    for _ in range(2 * most):
        if not stack:
            return found
        each = stack.pop()
        if isinstance(each, Pack):
            stack.extend(reversed(each.values))
        else:
            found.append(each)
    raise ModelError(f"a tuple of more than {most} values")


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
