"""What a form of a problem can do: take a problem, say how large it is, and give an answer back.

A *form* holds a problem in the terms of one method: a line of atoms and types of nodes, kinds of
items, chains of stages. Whoever makes a form of a problem says the same few things, after cvxpy's
reductions (A. Agrawal, R. Verschueren, S. Diamond, S. Boyd: A rewriting system for convex
optimization problems, J. Control and Decision 5, 2018, doi:10.1080/23307706.2017.1397554):

    refusal(instance)        why there is no such form of it ("" where there is)
    apply(instance)          the form
    size(form)               how large it is, in words
    invert(form, answer)     an answer in the form's terms, as devices of parts    -> `Reduction`
    bound(instance)          what the form proves of the objective                 -> `Relaxation`

All begin with an `Instance`, the one prepared form that everything else is made of. The table of
them is `tvm_hetero.solvers.reductions.REDUCTIONS`; docs/forms-of-a-problem.md has all forms, also
those to which this interface would add nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeVar

from tvm_hetero.views.instance import Instance

# What is left of a problem in a form:
#   exact   the best answer of the form is a best schedule, of those that divide the batch likewise
#   guide   each answer is a placement, but the form's value is not that of the schedule
#   bound   the form's value is a lower bound; there may be answers as well, as in `guide`
Keeps = Literal["exact", "guide", "bound"]
Form = TypeVar("Form")
Answer_contra = TypeVar("Answer_contra", contravariant=True)


class Placed(NamedTuple):
    """An answer in the terms of all solvers.

    Attributes
    ----------
    instance : whose parts are placed; one with a division where the form divides the batch.
    placement : the device of every part.
    order : the parts in a topological order, in which they take their turns on a device.
    """

    instance: Instance
    placement: list[int]
    order: tuple[int, ...]


class Shape(Protocol[Form]):
    """What reductions and relaxations share."""

    @property
    def name(self) -> str:
        """The form, in two or three words."""
        ...

    @property
    def keeps(self) -> Keeps:
        """What is left of the problem."""
        ...

    def refusal(self, instance: Instance) -> str:
        """Why the instance has no such form, as far as a look tells; "" where nothing is amiss."""
        ...

    def apply(self, instance: Instance) -> Form:
        """The form.

        Raises
        ------
        SolverError
            If it would be too large, which only the attempt can tell.
        """
        ...

    def size(self, form: Form) -> str:
        """How large it is, in words."""
        ...


class Reduction(Shape[Form], Protocol[Form, Answer_contra]):
    """A form whose answers come back as placements."""

    def invert(self, form: Form, answer: Answer_contra) -> Placed:
        """The devices of all parts that an answer means."""
        ...


class Relaxation(Shape[Form], Protocol[Form]):
    """A form that proves something of the objective."""

    def bound(self, instance: Instance) -> float:
        """A lower bound of the objective's value; 0 where the form has nothing to say."""
        ...
