"""Which requests of a stream are disturbed: from one to another, or again and again.

By request number, so that every policy meets the same disturbance at the same request, however
quick it is. There is always something in quiet before the first disturbance: what policies know
as quiet has to be seen once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tvm_hetero.errors import UsageError


@dataclass(frozen=True)
class DisturbedSpans:
    """Requests 0 to `requests` - 1; disturbed from each first one to before each last one.

    Raises
    ------
    UsageError
        When it is made: spans are not in order, or one lies outside of the stream.
    """

    requests: int
    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise UsageError(f"expected at least one request, got {self.requests}")
        edges = [0, *(edge for span in self.spans for edge in span), self.requests]
        rising = all(a <= b for a, b in pairwise(edges)) and all(a < b for a, b in self.spans)
        if not rising or (self.spans and self.spans[0][0] < 1):
            raise UsageError(
                f"expected disturbances one after the other within requests 1 to {self.requests}, "
                f"got {list(self.spans)}"
            )

    @property
    def edges(self) -> tuple[int, ...]:
        """First and last requests of all spans, in order."""
        return tuple(edge for span in self.spans for edge in span)

    @property
    def quiet(self) -> tuple[tuple[int, int], ...]:
        """The spans after the first disturbance in which nothing disturbs."""
        ends = [begin for begin, _ in self.spans[1:]] + [self.requests]
        both = ((a, b) for (_, a), b in zip(self.spans, ends, strict=False))
        return tuple((a, b) for a, b in both if a < b)


def disturbed_once(
    requests: int, begin: int | None = None, end: int | None = None
) -> DisturbedSpans:
    """One disturbance; if nothing is said, of the second third.

    Raises
    ------
    UsageError
        If it is not within the stream, or ends before it begins.
    """
    first = requests // 3 if begin is None else begin
    last = min(requests, max(first + 1, 2 * requests // 3)) if end is None else end
    if not 1 <= first < last <= requests:
        raise UsageError(
            f"a disturbance of requests {first} to {last} is none of {requests} requests: expected "
            f"1 <= begin < end <= {requests}"
        )
    return DisturbedSpans(requests, ((first, last),))


def disturbed_often(requests: int, period: int, duration: int) -> DisturbedSpans:
    """A disturbance of `duration` requests begins every `period` requests, `period` first.

    Raises
    ------
    UsageError
        If one would begin before the other ends, or none is within the stream.
    """
    if not 1 <= duration < period:
        raise UsageError(
            f"disturbances of {duration} requests every {period}: expected 1 <= duration < period, "
            "so that one ends before the next begins"
        )
    if period >= requests:
        raise UsageError(
            f"a period of {period} requests is not over before the {requests} requests are: "
            "expected a shorter period, or more requests"
        )
    return DisturbedSpans(requests, tuple(_often(requests, period, duration)))


def _often(requests: int, period: int, duration: int) -> Iterator[tuple[int, int]]:
    for begin in range(period, requests, period):
        yield begin, min(requests, begin + duration)
