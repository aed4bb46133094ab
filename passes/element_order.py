"""In which order a device takes the elements of a batch: stretch by stretch.

A schedule says that a device runs task after task, each for several elements of the batch. Done
literally (all elements of a task, then all of the next) what a task leaves behind for B elements
has gone from the caches when the next one reads it; an element at a time through the whole model,
weights have. Between the two: the executions of a device are cut into *stretches*, and within a
stretch each element goes through all of its tasks before the next element does. Kernels ask for
their weights ahead (`tvm_hetero.kernels.tir.prefetch_blocks`), so weights that have to come from
afar cost less than activations, and stretches are long: they end where the weights are some times
what the second level cache of a core holds.

No tensor gets later by it than the schedule says. The executions of a stretch are of the same
elements and follow each other on their device, with no copy that it is busy with between them;
only the first one reads what other devices make, and only what the last one makes is read by
others. So everything read from outside is there when the stretch begins, by the time of its first
execution; the stretch does the same work as its executions; and all that leaves it does so before
its last execution ends. In a steady state there is always another batch to work on, so what passes
between devices does not end a stretch. Of one element there is nothing to put in order. What is
computed for several elements at once (`tvm_hetero.kernels.tir.batched`) is a stretch by itself: its
weights pass once for all of them, which is what an order could gain at best.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tvm_hetero.passes.lowered_main import LoweredMain, tensor_bytes

# Bytes of weights (see above).
MOST_WEIGHTS = 4 << 20


@dataclass(frozen=True)
class Portion:
    """An execution in terms of a function: a call, for some elements, on a device.

    `sizes` says how many elements are computed at once, one after the other; none: each by itself.
    """

    call: int
    device: int
    elements: tuple[int, ...]
    start: float
    sizes: tuple[int, ...] = ()

    @property
    def together(self) -> list[tuple[int, ...]]:
        """The elements that are computed at once, in order."""
        sizes = self.sizes or (1,) * len(self.elements)
        ends = list(accumulate(sizes))
        return [self.elements[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    @property
    def batched(self) -> bool:
        """Whether some elements are computed at once."""
        return any(size > 1 for size in self.sizes)


def stretches(
    main: LoweredMain,
    portions: Sequence[Portion],
    copies: Mapping[int, Sequence[float]] | None = None,
    *,
    steady: bool = False,
    most_weights: int = MOST_WEIGHTS,
) -> list[list[Portion]]:
    """Cut what each device does into stretches; each one's portions are in their order.

    Parameters
    ----------
    copies : for each device the starts of the copies that keep it from computing.
    steady : only places count, not times (throughput).
    most_weights : bytes of weights in a stretch.
    """
    limits = _OrderLimits(main, portions, copies or {}, most_weights)
    on: dict[int, list[Portion]] = {}
    for portion in portions:
        on.setdefault(portion.device, []).append(portion)
    found: list[list[Portion]] = []
    for own in on.values():
        # Calls stand in a topological order; the starts within a period do not.
        own.sort(key=lambda p: (0.0 if steady else p.start, p.call, p.elements))
        found += _cut(own, limits, steady)
    return found


def _cut(own: Sequence[Portion], limits: _OrderLimits, steady: bool) -> Iterator[list[Portion]]:
    stretch: list[Portion] = []
    weights = 0
    for portion in own:
        size = limits.weights[portion.call]
        if stretch and (
            len(portion.elements) == 1
            or portion.batched
            or stretch[-1].batched
            or portion.elements != stretch[-1].elements
            or (size > 0 and weights + size > limits.most_weights)
            or not (steady or limits.may_follow(stretch[-1], portion))
        ):
            yield stretch
            stretch, weights = [], 0
        stretch.append(portion)
        weights += size
    if stretch:
        yield stretch


class _OrderLimits:
    """What the cutting must know of a function and its places."""

    def __init__(
        self,
        main: LoweredMain,
        portions: Sequence[Portion],
        copies: Mapping[int, Sequence[float]],
        most_weights: int,
    ) -> None:
        self.most_weights = most_weights
        self._copies = {device: sorted(starts) for device, starts in copies.items()}
        self.weights = [
            sum(
                tensor_bytes(arg.ty)
                for arg, value in zip(call.args, main.constants(call), strict=True)
                if value is not None
            )
            for call in main.calls
        ]
        self._device: Mapping[tuple[int, int], int] = {
            (p.call, element): p.device for p in portions for element in p.elements
        }
        self._makers = [
            [root.call for root in main.reads(call) if root.call is not None] for call in main.calls
        ]
        self._readers: list[list[int]] = [[] for _ in main.calls]
        for reader, makers in enumerate(self._makers):
            for maker in makers:
                self._readers[maker].append(reader)

    def may_follow(self, before: Portion, after: Portion) -> bool:
        """Whether nothing is given to another device after `before`, nor taken for `after`, nor
        copied between them.
        """
        copies = self._copies.get(after.device, [])
        return (
            self._is_here(self._readers[before.call], before)
            and self._is_here(self._makers[after.call], after)
            and bisect_left(copies, before.start) == bisect_left(copies, after.start)
        )

    def _is_here(self, calls: Sequence[int], portion: Portion) -> bool:
        """Whether calls are on the device of `portion`, for its elements."""
        return all(
            self._device[call, element] == portion.device
            for call in calls
            for element in portion.elements
        )
