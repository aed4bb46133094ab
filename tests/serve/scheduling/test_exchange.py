"""One query in the place of several that wait: what was promised to all others is kept."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.serve.scheduling.streams import profile, query_streams, starts_of
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.query import Query, ShareDecision
from tvm_hetero.serve.scheduling.replay import Deviation, QueryReplay

SECONDS = {"a": 1.0, "b": 0.1, "a*": 1.2, "b*": 0.12}  # "a*" is several of "a" at once


class Exchanging(Accordion):
    """Each query that comes takes the place of those of its model that wait, where it can.

    `deadlines` are those of all for which a query stands; `replay` is told what became of them.
    """

    replay: QueryReplay
    deadlines: dict[int, list[float]]

    def arrive(self, query: Query, now: float) -> list[ShareDecision]:
        decisions = super().arrive(query, now)
        self.deadlines[query.number] = [query.deadline]
        mates = [q for q in self.waiting if q.model[0] == query.model[0] and q.items == 1]
        if len(mates) < 2:
            return decisions
        numbers, promised = [each.number for each in mates], self.reservations
        whole = replace(mates[0], model=f"{query.model[0]}*")
        may = self.can_exchange(numbers, whole, now)
        assert self.reservations == promised
        more = self.exchange(numbers, whole, now)
        assert (more is not None) == may
        if more is None:
            assert self.reservations == promised
            return decisions
        self.replay._queries[whole.number] = whole
        for number in numbers[1:]:
            self.replay.outcomes[number].ended = now  # for the replay: it is not its own any more
            self.deadlines[whole.number] += self.deadlines.pop(number)
        return decisions + more


@settings(max_examples=draws(60), deadline=None)
@given(query_streams(), st.sampled_from([1, 2, 4]))
def test_nobody_who_was_accepted_is_late_in_the_predicted_model(
    queries: list[Query], places: int
) -> None:
    table = profile(places, **SECONDS)
    scheduler = Exchanging(table, places)
    scheduler.replay = QueryReplay(scheduler, table, Deviation(), learn=False)
    scheduler.deadlines = {}
    for each in scheduler.replay.run(queries):
        for deadline in scheduler.deadlines.get(each.query.number, ()):
            assert each.refusal is not None or each.ended <= deadline + 1e-6
    assert scheduler.pool.free == places and not scheduler.waiting


def test_the_earliest_deadline_is_that_of_all() -> None:
    scheduler = Accordion(profile(1, **SECONDS), 1)
    starts = scheduler.arrive(Query(0, "a", 1, 0.0), 0.0)
    assert starts_of(starts) == {0: 1}
    scheduler.arrive(Query(1, "a", 1, 0.0, 2.1), 0.0)
    late = Query(1, "a*", 1, 0.0, 9.0)
    assert not scheduler.can_exchange([1], late, 0.0)  # 1 s and 1.2 s are more than 2.1 s
    assert scheduler.exchange([1], late, 0.0) is None
    assert scheduler.exchange([0], late, 0.0) is None  # it runs
    assert scheduler.exchange([1], replace(late, model="b*"), 0.0) == []
    assert scheduler.reservations[1].end == 1.12


def test_with_best_effort_one_that_comes_too_late_rides_along() -> None:
    scheduler = Accordion(profile(1, **SECONDS), 1, AccordionOptions(best_effort=True))
    scheduler.arrive(Query(0, "a", 1, 0.0), 0.0)
    scheduler.arrive(Query(1, "a", 1, 0.0, 1.5), 0.0)  # too late: taken as one without deadline
    assert scheduler.waiting[0].deadline == math.inf
    assert scheduler.exchange([1], Query(1, "a*", 1, 0.0, 1.5), 0.0) == []
    assert scheduler.reservations[1].end == 2.2
