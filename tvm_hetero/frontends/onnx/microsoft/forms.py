"""Which contributed operators are taken, with which attributes, operands and results.

A rewriter is registered together with its form.  What lies outside of the form is refused by name
before the rewriter sees the node, so that no attribute is ever passed over in silence.

    @contributed("QuickGelu", operands=1, attributes=("alpha",))
    def rewrite_quick_gelu(r: Rewriting) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx import helper

from tvm_hetero.frontends.onnx.expansion.registry import MICROSOFT, rewrites
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

    Rewrite = Callable[[Rewriting], None]


@dataclass(frozen=True)
class ContributedForm:
    """What of a contributed operator is taken.

    Attributes
    ----------
    operands, results : int
        How many, from the first on.
    attributes : collection of str
        Those that are honoured, whatever their value.
    only : mapping of str to value
        Those that are taken with one value alone, which is the operator's default or means it.
    indifferent : collection of str
        Those that do not change what is computed.
    """

    operands: int
    results: int = 1
    attributes: Collection[str] = ()
    only: Mapping[str, Any] = field(default_factory=dict)
    indifferent: Collection[str] = ()


FORMS: dict[str, ContributedForm] = {}
"""The form of each operator of the domain ``com.microsoft`` that is taken."""


def contributed(
    *operators: str,
    operands: int,
    results: int = 1,
    attributes: Collection[str] = (),
    only: Mapping[str, Any] | None = None,
    indifferent: Collection[str] = (),
) -> Callable[[Rewrite], Rewrite]:
    """Register a function as the rewriter of these operators, in this form.

    Parameters
    ----------
    *operators : str
        Names of operators of the domain ``com.microsoft``.
    operands, results, attributes, only, indifferent
        See :class:`ContributedForm`.
    """
    form = ContributedForm(operands, results, attributes, dict(only or {}), indifferent)

    def register(function: Rewrite) -> Rewrite:
        def rewrite(r: Rewriting) -> bool:
            _check(r, form)
            function(r)
            return True

        FORMS.update(dict.fromkeys(operators, form))
        rewrites(*operators, domain=MICROSOFT)(rewrite)
        return function

    return register


def _check(r: Rewriting, form: ContributedForm) -> None:
    """Refuse what lies outside of the form."""
    for given in r.node.attribute:
        if given.name in form.attributes or given.name in form.indifferent:
            continue
        value = helper.get_attribute_value(given)
        if given.name not in form.only:
            r.refuse(
                f"has the attribute '{printable(given.name)}', which is not known of the operator. "
                f"{ADVICE}"
            )
        if value != form.only[given.name]:
            r.refuse(
                f"has {given.name} = {printable(str(value), 50)}; only {form.only[given.name]} is "
                f"taken. {ADVICE}"
            )
    for kind, names, most in (
        ("operand", r.inputs, form.operands),
        ("result", r.outputs, form.results),
    ):
        beyond = [i for i in range(most, len(names)) if names[i]]
        if beyond:
            name = printable(names[beyond[0]])
            r.refuse(f"has '{name}' as {kind} {beyond[0]}, which is not taken. {ADVICE}")


ADVICE = (
    "Take the file as it was before such operators were put in (before an optimizer), or export "
    "the model with standard operators."
)
"""What a user of a file with an operator in another form can do."""
