"""Analysis: a program becomes a straight list of operators, in an order in which they can run.

Functions are inlined where they are called, tuples are taken apart where they are made, ``let``
is the value that it binds, and annotations become notes on the operators under them. What is
left is what a graph of tasks needs: inputs, constants, and operators on them.

    Value    an `Input`, a `Constant`, a `Step` (what an operator makes), an `Item` of one that
             makes a tuple, a `Pack` of values, or a `Closure` (a function not called yet)

Inlining can make much of little: ten functions that each call the one before twice are a
thousand calls. So calls are counted, as is everything that is looked at, and a function that calls
itself is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.names import printable
from tvm_hetero.frontends.relay import program as relay
from tvm_hetero.frontends.relay.collector import paused
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
_MOST_WITHIN = 200
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
    depth: int = 0

    def find(self, key: int) -> Value | None:
        """The value of an expression here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.values:
                return scope.values[key]
            scope = scope.outer
        return None


@dataclass(eq=False, slots=True)
class Claim:
    """What the file says the type of a value is: of a variable, or of what a call gives."""

    value: Value
    type: relay.Type
    of: Var | str
    where: str = ""

    def error(self, made: object) -> ModelError:
        """The error that the value is something else."""
        variable = isinstance(self.of, Var)
        what = f"variable '{printable(self.of.name)}'" if isinstance(self.of, Var) else self.of
        place = f"{self.where}: " if self.where else ""
        said = printable(self.type, 200)
        return ModelError(
            f"{place}the file says that {what} {'is' if variable else 'gives'} {said}, but it "
            f"{'is' if variable else 'gives'} {printable(made, 200)}: the file is damaged"
        )


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
    steps: list[Step]
    output: Value
    result: relay.Type | None = None
    claims: list[Claim] = field(default_factory=list)
    unheeded: list[str] = field(default_factory=list)


@paused()
def flatten(program: Program, limits: Limits = DEFAULT_LIMITS) -> Flat:
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
    def __init__(self, program: Program, limits: Limits) -> None:
        self.program, self.limits = program, limits
        self.steps: list[Step] = []
        self.claims: list[Claim] = []
        self.unheeded: dict[str, None] = {}
        self.entered = 0
        self.spent = 0
        self.active: list[int] = []

    def main(self) -> Flat:
        main = self.program.functions["main"]
        _check_notes(main, "main")
        inputs = [Input(param) for param in main.params]
        for param in main.params:
            self._note_device(param, "main")
        scope = Scope(None, {id(i.var): i for i in inputs})
        output = run(self.value(main.body, scope))
        if isinstance(output, Closure):
            raise ModelError("'main' returns a function; a graph returns tensors")
        return Flat(inputs, self.steps, output, main.result, self.claims, list(self.unheeded))

    def _spend(self, count: int) -> None:
        """Count what is looked at: functions, tuples and types can make much of little."""
        self.spent += count
        if self.spent > self.limits.work:
            raise ModelError(
                f"more than {self.limits.work} expressions, fields and types once functions are "
                "inlined"
            )

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
            self._spend(1)
            value = yield self.value(expr.value, scope)
            self._claim(value, expr.var.type, expr.var)
            self._note_device(expr.var)
            scope.values[id(expr.var)] = value
            expr = expr.body
        found = scope.find(id(expr))
        if found is None:
            self._spend(1)
            found = scope.values[id(expr)] = yield from self._computed(expr, scope)
        scope.values[whole] = found
        return found

    def _computed(self, expr: relay.Expr, scope: Scope) -> Walk:
        if isinstance(expr, relay.Constant):
            return expr
        if isinstance(expr, relay.Call):
            return (yield from self._call(expr, scope))
        if isinstance(expr, relay.Tuple):
            return Pack((yield from self._all(expr.fields, scope)))
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
        self._spend(len(exprs))
        found: list[Value] = []
        for expr in exprs:
            value = yield self.value(expr, scope)
            found.append(value)
        return found

    def _call(self, call: relay.Call, scope: Scope) -> Walk:
        args = yield from self._all(call.args, scope)
        if not isinstance(call.callee, relay.Operator):
            callee = yield self.value(call.callee, scope)
            if not isinstance(callee, Closure):
                raise ModelError(f"{call.where}: what is called is no function")
            result = yield from self._inlined(callee, args, call)
            self._claim(result, call.type, call.where)
            return result
        if call.callee.name in ANNOTATIONS:
            return self._annotated(call, call.callee.name, args)
        if len(self.steps) >= self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} operators once functions are inlined")
        for arg in args:
            if isinstance(arg, Pack):
                self._spend(len(leaves(arg)))
        step = Step(call.callee.name, args, call.attributes, call.type, call.where)
        self.steps.append(step)
        return step

    def _inlined(self, callee: Closure, args: list[Value], call: relay.Call) -> Walk:
        function, depth = callee.function, callee.scope.depth + 1
        self.entered += 1
        if id(function) in self.active or max(len(self.active), depth) > _MOST_WITHIN:
            raise ModelError(
                f"{call.where}: a function calls itself (or {max(len(self.active), depth)} are "
                "within each other); loops cannot be partitioned: unroll it before saving"
            )
        if self.entered > self.limits.steps:
            raise ModelError(f"more than {self.limits.steps} calls of functions")
        if len(function.params) != len(args):
            raise ModelError(
                f"{call.where}: {len(args)} arguments for {len(function.params)} parameters"
            )
        inner = Scope(callee.scope, {}, depth)
        for param, arg in zip(function.params, args, strict=True):
            self._claim(arg, param.type, param, call.where)
            self._note_device(param, call.where)
            inner.values[id(param)] = arg
        self.active.append(id(function))
        result = yield self.value(function.body, inner)
        self.active.pop()
        self._claim(result, function.result, call.where)
        return result

    # ------------------------------------------------------------------ what the file says

    def _claim(self, value: Value, kind: relay.Type | None, of: Var | str, where: str = "") -> None:
        """Note what the file says that a value is. Tuples and functions are compared at once, the
        types of tensors when they are made (`emit`).
        """
        stack: list[tuple[Value, relay.Type | None]] = [(value, kind)]
        while stack:
            each, said = stack.pop()
            if said is None:
                continue
            self._spend(1)
            claim = Claim(each, said, of, where)
            if isinstance(each, Pack):
                if not isinstance(said, relay.TupleType) or len(said.fields) != len(each.values):
                    raise claim.error(f"a tuple of {len(each.values)}")
                stack.extend(zip(each.values, said.fields, strict=True))
            elif isinstance(each, Closure) or not isinstance(
                said, relay.TensorType | relay.TupleType
            ):
                if not (isinstance(each, Closure) and isinstance(said, relay.FunctionType)):
                    raise claim.error("a function" if isinstance(each, Closure) else "a tensor")
            else:
                self.claims.append(claim)

    def _note_device(self, var: Var, where: str = "") -> None:
        """A variable on a device asks that who reads it runs there."""
        if var.device is not None:
            place = f"{where}: " if where else ""
            self.unheeded[f"{place}virtual_device of '{printable(var.name)}'"] = None

    def _annotated(self, call: relay.Call, name: str, args: list[Value]) -> Value:
        """The value under an annotation; its operator is to run on the device that is named.

        That is what ``constrain_body`` (and the source of a copy) says. ``constrain_result`` (and
        the target of a copy) is about the operators that read the value, wherever they are.
        """
        if len(args) != 1:
            raise ModelError(f"{call.where}: {name} has {len(args)} arguments, expected 1")
        self._claim(args[0], call.type, call.where)
        device, given = _device(call.attributes, _MADE), call.attributes
        fixed = bool(given.get("constrain_result") or given.get("is_fixed"))
        body = bool(given.get("constrain_body", True))
        if device is not None and (fixed or not body):
            self.unheeded[f"{call.where}: {'constrain_result' if fixed else name}"] = None
        elif _device(given, _COPIED) is not None:
            self.unheeded[f"{call.where}: the target of {name}"] = None
        if device is not None and body:
            marked = leaves(args[0])
            self._spend(len(marked))
            _mark(marked, device)
        return args[0]


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


# Names of attributes, of all versions: the device of what is annotated, and where a copy goes.
_MADE = ("virtual_device", "se_scope", "src_virtual_device", "src_se_scope", "device_type",
         "src_dev_type")  # fmt: skip
_COPIED = ("dst_virtual_device", "dst_se_scope", "dst_dev_type")


def _device(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Device | None:
    """The device that an annotation names under the first of some names that says one."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, Device):
            return found
        if isinstance(found, int) and found > 0:
            return Device(found)
    return None


def _mark(values: list[Value], device: Device) -> None:
    for each in values:
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
