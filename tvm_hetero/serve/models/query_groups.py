"""Queries of one element that wait, and will run, as one: groups of a model with batch plans.

A group is one query to the policy. It is *open* until it has its turn: others may come in until
then, where that is no loss (`batch_gain`) and the policy keeps what it has promised. How:

    room      a group whose plan is for more than it has takes one more, at no cost
    merge     groups of one model and priority, and the query that comes, become one by the
              smallest plan that holds them; if one of them has no time for that, those that have
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.models.policy_driver import SharedQuery
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.scheduling.query import Query


@dataclass(eq=False)
class GroupMember:
    """A client's query, and where its answer will be; `due` is infinite if it is never late."""

    query: InferenceQuery
    due: float
    answer: asyncio.Future[InferenceAnswer]

    def settle(self, answer: InferenceAnswer) -> bool:
        """Give the answer; False if nobody waits for it any more."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True

    def fail(self, error: Exception) -> None:
        """Say why there is no answer, if somebody waits for it."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(eq=False)
class QueryGroup:
    """Queries that run as one.

    Attributes
    ----------
    entry : what they are to the policy.
    plan : by which they are to run: the model itself, if it is one.
    task : which waits for their turn and runs them.
    computes : by which it does run: one that is left is computed alone; None before its turn.
    begun : when that was begun, by `time.monotonic`.
    """

    entry: SharedQuery
    plan: TensorModel
    members: list[GroupMember] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    computes: TensorModel | None = None
    begun: float = 0.0

    def begin(self, plan: TensorModel) -> None:
        """Note that it is computed by a plan from now on."""
        self.computes, self.begun = plan, time.monotonic()

    @property
    def priority(self) -> Priority:
        """Of all of them."""
        return self.entry.query.priority

    @property
    def patient(self) -> int:
        """How many of them are never late."""
        return sum(each.due == math.inf for each in self.members)

    def tell(self, error: Exception) -> None:
        """Let all fail that have no answer yet."""
        for member in self.members:
            member.fail(error)


class Merger(NamedTuple):
    """A query that comes may join these groups, which become one; the first of them stays."""

    groups: Sequence[QueryGroup]
    plan: TensorModel

    @property
    def is_free(self) -> bool:
        """Whether it is one group that has room."""
        return len(self.groups) == 1 and self.groups[0].plan is self.plan

    @property
    def entries(self) -> list[SharedQuery]:
        """What the groups are to the policy."""
        return [group.entry for group in self.groups]

    def query(self, key: str, due: float) -> Query:
        """What all of them are to the policy as one, by the plan's key there.

        Its deadline is that of the query that comes, which may be past already; those of the others
        the policy knows.
        """
        kept = self.groups[0].entry.query
        return replace(kept, model=key, deadline=max(due, math.nextafter(kept.arrival, math.inf)))


def possible_mergers(model: TensorModel, waiting: Sequence[QueryGroup]) -> Iterator[Merger]:
    """What a query that comes may do, the best first.

    Parameters
    ----------
    waiting : open groups of its model and priority, in the order in which they came.
    """
    for group in waiting:
        if len(group.members) < group.plan.size:
            yield Merger([group], group.plan)
    plans = sorted(model.batches, key=lambda plan: plan.size)
    urgent = min(waiting, key=lambda group: min(each.due for each in group.members))
    tried: list[list[QueryGroup]] = []
    for out in ((), (urgent,)):  # all of them, or all but the most urgent
        chosen, count = list[QueryGroup](), 1
        for group in waiting:
            if group not in out and count + len(group.members) <= plans[-1].size:
                chosen.append(group)
                count += len(group.members)
        plan = next(plan for plan in plans if plan.size >= count)
        if chosen and chosen not in tried and not (len(chosen) == 1 and chosen[0].plan is plan):
            yield Merger(chosen, plan)
        tried.append(chosen)
