"""What a file says that types are, beside those of its operators: notes to be compared later.

Tuples and functions are compared at once, the types of tensors when they are made (`emit`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core import program as relay
from tvm_hetero.frontends.relay.core.limits import ReadBudget
from tvm_hetero.frontends.relay.core.program import Var
from tvm_hetero.frontends.relay.flat_values import Closure, Pack, Value
from tvm_hetero.util.untrusted_names import printable


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
class Claims:
    """The claims of a program, as they are met; every type that is looked at is counted."""

    budget: ReadBudget
    found: list[Claim] = field(default_factory=list)

    def note(self, value: Value, kind: relay.Type | None, of: Var | str, where: str = "") -> None:
        """Note what the file says that a value is.

        Raises
        ------
        ModelError
            It is a tuple, function or tensor where the file says another of them.
        """
        stack: list[tuple[Value, relay.Type | None]] = [(value, kind)]
        while stack:
            each, said = stack.pop()
            if said is None:
                continue
            self.budget.spend(1)
            claim = Claim(each, said, of, where)
            if isinstance(each, Pack):
                stack.extend(_fields(each, claim))
            elif isinstance(each, Closure):
                if not isinstance(said, relay.FunctionType):
                    raise claim.error("a function")
            elif isinstance(said, relay.RelayTensorType | relay.TupleType):
                self.found.append(claim)
            else:
                raise claim.error("a tensor")


def _fields(pack: Pack, claim: Claim) -> list[tuple[Value, relay.Type | None]]:
    """The values of a tuple, each with what the file says that it is."""
    said = claim.type
    if not isinstance(said, relay.TupleType) or len(said.fields) != len(pack.values):
        raise claim.error(f"a tuple of {len(pack.values)}")
    return list(zip(pack.values, said.fields, strict=True))
