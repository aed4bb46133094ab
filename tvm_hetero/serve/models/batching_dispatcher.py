"""Dynamic batching: queries of one element that wait for the same model are computed together.

For models that have plans for batches beside their own (`batch_plans`). Nobody waits for others to
come: a query that can have its turn has it at once, alone. But while queries wait, those that come
join them (`query_groups`) if that is measured to be cheaper (`batch_gain`) and late for nobody. A
group may be smaller than its plan: the rest of a batch are copies of its first element, whose
outputs nobody gets.

Each member keeps what it has alone: its deadline ends its waiting and nothing else, whoever hangs
up is missing, and what fails together is computed again one by one, so that only those fail whose
own inputs are to blame.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from itertools import chain

from tvm_hetero.errors import DeadlineError, HeteroError, RunError
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.models.batch_gain import GroupTimes, Shares, pays
from tvm_hetero.serve.models.batch_plans import seeded_elements
from tvm_hetero.serve.models.policy_driver import MakeScheduler
from tvm_hetero.serve.models.policy_keys import due_of, key_of
from tvm_hetero.serve.models.pool_dispatcher import PoolDispatcher
from tvm_hetero.serve.models.query_groups import (
    GroupMember,
    Merger,
    QueryGroup,
    possible_mergers,
)
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.models.tensor_model import TensorModel, answer_in_time

# Runs of each plan when a model is loaded, so that its times are measured ones (`profile.FEW`).
_RUNS = 6
_SECONDS = 2.0  # for the runs on one share: a slow model has fewer


class BatchingDispatcher(PoolDispatcher):
    """A pool whose models may have batch plans."""

    def __init__(
        self, cores: Sequence[int], make_scheduler: MakeScheduler, most_waiting: int
    ) -> None:
        super().__init__(cores, make_scheduler, most_waiting)
        # Of each model those that wait or run, in the order in which they came.
        self._groups: dict[str, list[QueryGroup]] = {}

    def add(self, model: TensorModel) -> None:
        """As `PoolDispatcher.add`; what plans for batches take is measured beside the model's."""
        super().add(model)
        for plan in model.batches:
            paces = self.predict(plan, "single")
            self.know(key_of(plan), ServedTimes(paces, paces))
        if model.batches:
            for number in dict.fromkeys((1, len(self._cores))):
                self._measure(model, number)

    def _measure(self, model: TensorModel, number: int) -> None:
        """Let all plans of a model run on so many cores, in turns: what disturbs one does all."""
        cores = frozenset(self._cores[:number])
        every = (model, *model.batches)
        plans = [plan for plan in every if plan.instances.plans.runs_on(cores)]
        end = time.monotonic() + _SECONDS
        given = [seeded_elements(model.executor, plan.size) for plan in plans]
        for turn in range(_RUNS):
            for plan, elements in zip(plans, given, strict=True):
                executor = plan.instances.make(cores, "single")
                begun = time.monotonic()
                executor.run(elements if plan.size > 1 else elements[0])
                if turn:  # the first one loads what the others find in memory
                    times = self.profile.times(key_of(plan))
                    times.add(1, number, time.monotonic() - begun)
            if turn and time.monotonic() > end:
                return

    # ------------------------------------------------------------------ queries

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        """As `PoolDispatcher.check_door`; who can join others is not refused."""
        if due is not None and model.batches:
            self.check_queue(model.name)
            for merger in self._mergers(model, due, priority):
                if self.can_exchange(merger.entries, merger.query(key_of(merger.plan), due)):
                    return
        super().check_door(model, due, priority)

    def compute_at_once(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer | None:
        """As `PoolDispatcher.compute_at_once`; of models whose queries may join, none is."""
        return None if model.batches else super().compute_at_once(model, query)

    async def compute(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer:
        """As `Dispatcher.compute`."""
        if not model.batches or query.items > 1:
            return await super().compute(model, query)
        self.check_queue(model.name)
        member = GroupMember(query, due_of(query), asyncio.get_running_loop().create_future())
        mergers = self._mergers(model, member.due, query.priority)
        if not any(self._merge(merger, member) for merger in mergers):
            self._begin(model, member)
        try:
            async with answer_in_time(query):
                return await member.answer
        except DeadlineError:
            group = self._group_of(model, member)
            if group is not None and group.computes is not None and len(group.members) == 1:
                self.learn_at_least(group.entry, key_of(group.computes), group.begun)
            raise
        finally:
            self._leave_group(model, member)

    def _begin(self, model: TensorModel, member: GroupMember) -> None:
        """Let a query be a group of its own."""
        key, query = key_of(model), member.query
        entry = self.enter(key, model.name, 1, query.priority, query.arrived, member.due)
        group = QueryGroup(entry, model, [member])
        self._groups.setdefault(key, []).append(group)
        group.task = asyncio.ensure_future(self._attend(model, group))
        # Not in a finally clause there: a task that is cancelled before its first step has none.
        group.task.add_done_callback(lambda _: self._end(model, group))

    def _group_of(self, model: TensorModel, member: GroupMember) -> QueryGroup | None:
        groups = self._groups.get(key_of(model), ())
        return next((group for group in groups if member in group.members), None)

    def _leave_group(self, model: TensorModel, member: GroupMember) -> None:
        """Nobody waits for a query any more; a group that nobody waits for is not computed."""
        group = self._group_of(model, member)
        if group is None:
            return
        group.members.remove(member)
        group.entry.clients = max(1, len(group.members))
        if not group.members and group.task is not None:
            group.task.cancel()

    # ------------------------------------------------------------------ joining

    def _mergers(self, model: TensorModel, due: float, priority: Priority) -> Iterator[Merger]:
        """What a query that comes may join, where that is better than to wait alone."""
        waiting = [
            group
            for group in self._groups.get(key_of(model), ())
            if group.priority == priority and group.members and not group.entry.granted.done()
        ]
        if not waiting:
            return
        for merger in possible_mergers(model, waiting):
            if merger.is_free or self._is_gain(model, merger, due):
                yield merger

    def _is_gain(self, model: TensorModel, merger: Merger, due: float) -> bool:
        apart = [GroupTimes(self._shares(each.plan), each.patient) for each in merger.groups]
        apart.append(GroupTimes(self._shares(model), int(due == math.inf)))
        behind = self.count_waiting() - sum(len(each.members) for each in merger.groups)
        return pays(apart, self._shares(merger.plan), len(self._cores), behind)

    def _shares(self, plan: TensorModel) -> Shares:
        shares = self.profile.times(key_of(plan)).useful_shares(1)
        return [(share.places, share.seconds) for share in shares]

    def _merge(self, merger: Merger, member: GroupMember) -> bool:
        """Let a query join; False if the policy has no room for it."""
        first, *others = merger.groups
        query = merger.query(key_of(merger.plan), member.due)
        if not self.exchange(first.entry, [group.entry for group in others], query):
            return False
        first.plan = merger.plan
        first.members += [*chain(*(group.members for group in others)), member]
        for group in others:
            group.members = []
            if group.task is not None:
                group.task.cancel()
        return True

    # ------------------------------------------------------------------ running

    async def _attend(self, model: TensorModel, group: QueryGroup) -> None:
        """Wait for a group's turn, and answer its members, whatever happens."""
        try:
            await group.entry.granted
            group.entry.begun = time.monotonic()
            await self._run_group(model, group)
        except Exception as error:
            group.tell(error)

    def _end(self, model: TensorModel, group: QueryGroup) -> None:
        key = key_of(model)
        self._groups[key].remove(group)
        if not self._groups[key]:
            del self._groups[key]
        try:
            if self.has(group.entry):  # else it has become part of another
                self.leave(group.entry)
        finally:
            group.tell(RunError("the query was given up by the server"))

    async def _run_group(self, model: TensorModel, group: QueryGroup) -> None:
        if len(group.members) == 1:
            await self._run_alone(model, group, group.members[0])
            if group.plan is model:
                self.learn(group.entry)
            return
        try:
            await self._run_together(group)
        except HeteroError:  # of one of them, perhaps: it shall not be the others'
            for member in list(group.members):
                if member.answer.done():  # by its deadline, while others were computed
                    continue
                try:
                    await self._run_alone(model, group, member)
                except HeteroError as error:
                    member.fail(error)
        else:
            self.learn(group.entry)

    async def _run_alone(self, model: TensorModel, group: QueryGroup, member: GroupMember) -> None:
        group.begin(model)
        begun = group.begun
        rows = await self.run(group.entry, model, member.query)
        member.settle(model.answer(member.query, rows, begun))

    async def _run_together(self, group: QueryGroup) -> None:
        group.begin(group.plan)
        executor = await self.executor(group.entry, group.plan)
        members = list(group.members)
        elements = [member.query.inputs for member in members]
        elements += elements[:1] * (group.plan.size - len(members))
        begun = time.monotonic()
        made = await asyncio.wrap_future(executor.submit(elements))
        computed = time.monotonic() - begun
        arrays = [as_array(value) for value in made]
        executions = 1
        for number, member in enumerate(members):
            outputs = dict(zip(executor.outputs, (array[number] for array in arrays), strict=True))
            queued = begun - member.query.arrived
            answer = InferenceAnswer(outputs, queued, computed, executions, len(members))
            if member.settle(answer):
                executions = 0  # one of them is told of the run
