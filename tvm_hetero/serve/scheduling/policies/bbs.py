"""BBS, the buffer-based baseline of the paper: a query joins a running pipeline of its model.

Its items go in right behind those of the query before it, so the pipeline is not filled anew. It
joins the stream that ends first, if it meets its deadline there; else it is as in SLO-Conforming.
"""

from __future__ import annotations

from tvm_hetero.serve.scheduling.course import Course
from tvm_hetero.serve.scheduling.policies.slo_conforming import SloConforming
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Query, StartQuery
from tvm_hetero.serve.scheduling.scheduler import RunningQuery


class BufferBased(SloConforming):
    """A query joins a running pipeline of its model that meets its deadline."""

    def __init__(self, profile: ServiceProfile, places: int, *, drop_late: bool = False) -> None:
        super().__init__(profile, places, drop_late=drop_late)
        self._buffers: dict[int, list[Query]] = {}  # by the query that runs

    @property
    def waiting(self) -> tuple[Query, ...]:
        """The queue, and who has joined a stream."""
        joined = (query for buffer in self._buffers.values() for query in buffer)
        return (*super().waiting, *joined)

    def _receive(self, query: Query, now: float) -> None:
        ends = [
            (self._end_behind(running, query), number)
            for number, running in self.running.items()
            if running.query.model == query.model
        ]
        if ends and min(ends)[0] <= query.deadline:
            self._buffers.setdefault(min(ends)[1], []).append(query)
        else:
            super()._receive(query, now)

    def _end_behind(self, running: RunningQuery, query: Query) -> float:
        """When a query would end behind all that has joined a stream."""
        buffered = self._buffers.get(running.query.number, [])
        items = query.items + sum(other.items for other in buffered)
        return running.course.finish + items * running.course.period

    def _forget(self, number: int) -> None:
        super()._forget(number)
        for buffer in self._buffers.values():
            buffer[:] = [query for query in buffer if query.number != number]

    def _inherit(self, running: RunningQuery, now: float) -> None:
        number, period = running.query.number, running.course.period
        buffer = self._buffers.pop(number, [])
        while buffer and self._is_dropped_behind(buffer[0], now, period):
            buffer.pop(0)
        if not buffer:
            return
        query, *rest = buffer
        places = self.pool.hand_over(number, query.number)
        fill = self.profile.pace(query.model, 1, running.share).fill
        course = Course(query.items, running.share, 0, now - fill + period, now + period, period)
        self.running[query.number] = RunningQuery(query, places, course)
        self._buffers[query.number] = rest
        self._decisions.append(StartQuery(query.number, places, follows=number))

    def _is_dropped_behind(self, query: Query, now: float, period: float) -> bool:
        end = now + query.items * period
        if not self._drop_late or end <= query.deadline + 1e-9:
            return False
        reason = "the stream that it joined is too late for its deadline"
        self._refuse(query, reason, query.slo, end - query.arrival, None)
        return True
