"""Rewrite: a flat program, operator by operator, into a Relax function that is being built."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from typing import Any

from tvm import relax

from tvm_hetero.errors import HeteroError, ModelError
from tvm_hetero.frontends.relay.core.program import (
    Constant,
    FunctionType,
    RelayDevice,
    RelayTensorType,
    TupleType,
    Type,
)
from tvm_hetero.frontends.relay.core.tensor_types import MOST_ELEMENTS
from tvm_hetero.frontends.relay.flat_values import (
    Closure,
    FlatItem,
    FlatStep,
    Input,
    Pack,
    Value,
    leaves,
)
from tvm_hetero.frontends.relay.flatten import Flat
from tvm_hetero.frontends.relay.operator_table import TABLE
from tvm_hetero.frontends.relay.operators.rule_context import (
    Rule,
    Site,
    constant,
    dtype_name,
    shape_of,
)
from tvm_hetero.frontends.relay.type_claims import Claim
from tvm_hetero.util.untrusted_names import printable

ELSEWHERE = "; 'tvm-hetero relay-check' lists all that are not"


class RelayEmitter:
    """Emits the steps of a program in order.

    Attributes
    ----------
    wishes : dict of str to Device
        Devices that the program's annotations name, by the variable that they are about.
    output_names : list of str
        A name for each output.
    """

    def __init__(self, builder: relax.BlockBuilder, flat: Flat, version: str = "") -> None:
        self.builder, self.flat, self.version = builder, flat, version
        self.known: dict[int, relax.Expr | list[relax.Expr]] = {}
        self.wishes: dict[str, RelayDevice] = {}
        self.output_names: list[str] = []

    def bind(self, values: Mapping[str, Any], variables: Mapping[Input, relax.Var]) -> None:
        """Say what the inputs are: constants by name, variables for the others."""
        for each in self.flat.inputs:
            name = each.var.name
            self.known[id(each)] = constant(values[name]) if name in values else variables[each]

    def run(self) -> relax.Expr:
        """Emit everything; returns what ``main`` returns."""
        for step in self.flat.steps:  # before anything is built
            _rule(step)
        for step in self.flat.steps:
            self.emit(step)
        for claim in self.flat.claims:
            self.compare(claim)
        outputs = [each for value in leaves(self.flat.output) for each in self._outputs(value)]
        if not outputs:
            raise ModelError("the program returns an empty tuple; expected tensors")
        count = len(outputs)
        if self.flat.result is not None:
            _check_returned(outputs, self.flat.result)
        self.output_names = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
        if count == 1 and not isinstance(self.flat.output, Pack):
            return self.builder.emit(outputs[0])
        return relax.Tuple([self.builder.emit(each) for each in outputs])

    def _outputs(self, value: Value) -> list[relax.Expr]:
        """A value that is returned: an operator that makes a tuple may stand for all of it."""
        found = self.known[id(value)] if isinstance(value, FlatStep) else None
        return found if isinstance(found, list) else [self._tensor(value)]

    def emit(self, step: FlatStep) -> None:
        """Emit one operator."""
        self.known[id(step)] = self._step(step)

    def compare(self, claim: Claim) -> None:
        """Refuse what the file says of a value's type if the value is of another.

        (Outputs that are not computed here, and of operators that are not, have no type.)
        """
        made, said = self._kind(claim.value), claim.type
        if isinstance(made, list):
            if not isinstance(said, TupleType) or len(said.fields) != len(made):
                raise claim.error(f"a tuple of {len(made)}")
            pairs = list(zip(made, said.fields, strict=True))
        else:
            pairs = [(made, said)]
        for kind, each in pairs:
            if kind is None or each is None:
                continue
            if not (isinstance(each, RelayTensorType) and each.holds(kind)):
                raise claim.error(kind)

    def _kind(self, value: Value) -> RelayTensorType | list[RelayTensorType | None] | None:
        """The type of what was made of a value, or types; None where nothing was."""
        if isinstance(value, Constant):
            return RelayTensorType(value.value.shape, str(value.value.dtype))
        if isinstance(value, FlatItem):
            made = self._kind(value.step)
            fields = made if isinstance(made, list) else [made]
            return fields[value.index] if 0 <= value.index < len(fields) else None
        found = self.known.get(id(value))
        if not isinstance(found, list):
            return None if found is None else _made(found)
        count = _outputs(value, found) if isinstance(value, FlatStep) else len(found)
        return [*map(_made, found), *[None] * (count - len(found))]

    def ready(self, step: FlatStep) -> bool:
        """Whether everything that an operator reads has been emitted."""
        sources = [v.step if isinstance(v, FlatItem) else v for a in step.args for v in leaves(a)]
        return all(id(v) in self.known for v in sources if isinstance(v, FlatStep))

    def _step(self, step: FlatStep) -> relax.Expr | list[relax.Expr]:
        rule = _rule(step)
        args = [self._argument(value) for value in step.args]
        site = Site(
            self.builder, step.operator, args, step.attributes, step.type, step.where, self.version
        )
        try:
            result = rule(site)
            site.finish()
        except HeteroError:
            raise
        except Exception as error:  # TVM's own refusals, and operands of unheard-of kinds
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = printable(lines[-1] if lines else type(error).__name__, 200)
            raise ModelError(
                f"{step.where}: {step.operator} cannot be imported: {reason}. If the TVM that "
                "saved the program runs it, please report it, with the file"
            ) from error
        _check(result, step)
        if step.device is not None:
            given = [each for a in args for each in (a if isinstance(a, list) else [a])]
            for made in result if isinstance(result, list) else [result]:
                # What an operator only hands on was made elsewhere, and is wanted nowhere.
                if isinstance(made, relax.Var) and not any(made.same_as(each) for each in given):
                    self.wishes[made.name] = step.device
        return result

    def _argument(self, value: Value) -> relax.Expr | list[relax.Expr]:
        if isinstance(value, Pack):
            return [self._tensor(each) for each in leaves(value)]
        if isinstance(value, FlatStep):
            return self.known[id(value)]
        return self._tensor(value)

    def _tensor(self, value: Value) -> relax.Expr:
        if isinstance(value, Constant):
            if id(value) not in self.known:
                self.known[id(value)] = constant(value.value)
            found = self.known[id(value)]
        elif isinstance(value, FlatItem):
            found = self._item(value)
        elif isinstance(value, Pack | Closure):
            raise ModelError("a tuple or function where a tensor is expected")
        else:
            found = self.known[id(value)]
        if isinstance(found, list):
            if len(found) != 1:
                raise ModelError(f"a tuple of {len(found)} where a tensor is expected")
            found = found[0]
        return found

    def _item(self, item: FlatItem) -> relax.Expr:
        found = self.known[id(item.step)]
        fields = found if isinstance(found, list) else [found]
        if not 0 <= item.index < len(fields):
            raise ModelError(
                f"{item.step.where}: output {item.index} of {item.step.operator} is not computed "
                f"here, only the first {len(fields)}"
            )
        return fields[item.index]


def _rule(step: FlatStep) -> Rule:
    rule = TABLE.get(step.operator)
    if rule is None:
        raise ModelError(
            f"{step.where}: operator '{printable(step.operator)}' is not supported{ELSEWHERE}"
        )
    return rule


def _check(result: relax.Expr | list[relax.Expr], step: FlatStep) -> None:
    """What was made has the type that the file says, and is of a size that can be."""
    for each in result if isinstance(result, list) else [result]:
        if min(shape_of(each), default=0) < 0:
            raise ModelError(
                f"{step.where}: {step.operator} makes {shape_of(each)}: less than none"
            )
        elements = math.prod(shape_of(each))
        if elements > MOST_ELEMENTS:
            raise ModelError(f"{step.where}: {step.operator} makes {elements} values")
    _check_type(result, step)


def _check_type(result: relax.Expr | list[relax.Expr], step: FlatStep) -> None:
    if isinstance(step.type, RelayTensorType if isinstance(result, list) else TupleType):
        raise ModelError(
            f"{step.where}: the file says that {step.operator} makes {step.type}: damaged"
        )
    if isinstance(result, list):
        if not isinstance(step.type, TupleType):
            return
        if len(step.type.fields) != _outputs(step, result):
            raise ModelError(
                f"{step.where}: the file says that {step.operator} makes a tuple of "
                f"{len(step.type.fields)}, but it makes {_outputs(step, result)}: damaged"
            )
        for each, kind in zip(result, step.type.fields, strict=False):
            _compare(each, kind, step.where, step.operator)
    else:
        _compare(result, step.type, step.where, step.operator)


# How many outputs operators have of which not all are computed here.
_OUTPUTS = {"nn.dropout": 2}


def _outputs(step: FlatStep, made: Sized) -> int:
    """How many outputs an operator has, of which these were made."""
    return _OUTPUTS.get(step.operator, len(made))


def _check_returned(outputs: list[relax.Expr], declared: Type) -> None:
    """What ``main`` returns has the type that the file says."""
    kinds: list[Type | None] = []
    stack: list[Type | None] = [declared]
    while stack:
        kind = stack.pop()
        if isinstance(kind, TupleType):
            stack.extend(reversed(kind.fields))
        else:
            kinds.append(kind)
    if len(kinds) != len(outputs):
        raise ModelError(
            f"the file says that 'main' returns {declared}, but it returns {len(outputs)} tensors"
        )
    for output, kind in zip(outputs, kinds, strict=True):
        _compare(output, kind, "its return type", "'main'")


def _compare(made: relax.Expr, declared: Type | None, where: str, what: str) -> None:
    if not isinstance(declared, RelayTensorType | TupleType | FunctionType):
        return
    kind = _made(made)
    if not isinstance(declared, RelayTensorType) or not declared.holds(kind):
        raise ModelError(
            f"{where}: the file says that {what} makes {declared}, but its operands "
            f"make {kind}: the file is damaged"
        )


def _made(expr: relax.Expr) -> RelayTensorType:
    return RelayTensorType(tuple(shape_of(expr)), dtype_name(expr))
