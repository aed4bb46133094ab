"""Non-maximum suppression: of boxes that overlap, the one of the highest score.

    for each batch and class:
        candidates = boxes whose score is above the threshold, the best first
        for each candidate, as long as fewer than `most` are chosen:
            choose it if it overlaps no chosen one by more than the threshold

The candidates are a heap (`largest`), from which the best is taken again and again: as soon as
enough are chosen, the others need no order.  Of equal scores the lower box comes first.

    overlap = intersection / (area + area - intersection)

as ONNX Runtime has it: boxes without an area overlap nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.ordered.accumulate import OPAQUE
from tvm_hetero.kernels.ordered.found import Found
from tvm_hetero.kernels.ordered.largest import Heap, comes_smaller
from tvm_hetero.kernels.tir.index_values import FLOPS
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    function,
    load,
    loop,
    real,
    sequence,
    store,
    tensor,
    when,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Expr = Any


@dataclass(frozen=True)
class BoxCounts:
    """Sizes of a suppression.

    Attributes
    ----------
    batches, classes, boxes : what there are of each.
    most : how many boxes of a class are chosen at most.
    """

    batches: int
    classes: int
    boxes: int
    most: int

    @property
    def room(self) -> int:
        """How many boxes are chosen at most."""
        return self.batches * self.classes * min(self.most, self.boxes)


def non_maximum_suppression(
    counts: BoxCounts, *, has_threshold: bool, from_centers: bool
) -> tirx.PrimFunc:
    """The kernel that chooses boxes.

    Parameters
    ----------
    counts
        Its sizes.
    has_threshold
        Whether scores must be above a number.
    from_centers
        Whether a box is x, y of its center, width and height; else y, x, y, x of two corners.

    Returns
    -------
    PrimFunc
        Of boxes (batch, box, 4), scores (batch, class, box), the overlap that is still allowed
        and, if so, the threshold of scores (float32 of one element each); the chosen ones (batch,
        class and box a row, int64), and how many.
    """
    boxes = tensor("boxes", [counts.batches, counts.boxes, 4])
    scores = tensor("scores", [counts.batches, counts.classes, counts.boxes])
    allowed, threshold = tensor("allowed", [1]), tensor("threshold", [1])
    chosen, count = tensor("chosen", [counts.room, 3], "int64"), tensor("count", [1], "int64")
    choice = _BoxChoice(counts, boxes, scores, allowed, chosen, Found(count, counts.room))
    least = threshold if has_threshold else None

    def one_class(b: Expr, c: Expr) -> list[tirx.Stmt]:
        return [*choice.collect(b, c, least), *choice.choose(b, c, from_centers)]

    def row(at: Expr, of: Callable[[Any], Any]) -> tirx.Stmt:
        return loop("k", 3, lambda k: store(chosen, [at, k], of(load(chosen, 0, k))))

    body = [
        choice.found.start(),
        loop("b", counts.batches, lambda b: loop("c", counts.classes, lambda c: one_class(b, c))),
        *choice.found.fill(row),
    ]
    given = [boxes, scores, allowed, *([threshold] if has_threshold else [])]
    made = [chosen, count]
    # How long it takes is for the data to say: as if each class had a few dozen candidates.
    looks = counts.batches * counts.classes * counts.boxes
    attrs = {**OPAQUE, FLOPS: float(4 * looks)}
    return function([*given, *made], body, "suppress", made, choice.buffers, attrs=attrs)


# Numbers of the state of a class, in a tensor.
_LEFT, _OWN, _OVERLAPS = range(3)


class _BoxChoice:
    """Statements that choose the boxes of a class."""

    def __init__(
        self,
        counts: BoxCounts,
        boxes: tirx.Var,
        scores: tirx.Var,
        allowed: tirx.Var,
        chosen: tirx.Var,
        found: Found,
    ) -> None:
        self.counts, self.boxes, self.scores = counts, boxes, scores
        self.allowed, self.chosen, self.found = allowed, chosen, found
        self.most = min(counts.most, counts.boxes)
        room = (1, counts.boxes, 1)
        values, places = tensor("values", room), tensor("places", room, "int64")
        spots = tensor("spots", [4], "int64", "local")
        self.state = tensor("state", [3], "int64", "local")
        self.own = tensor("own", [self.most], "int64")
        self.buffers = [values, places, spots, self.state, self.own]
        # At the root stands what comes last: the largest, of the highest number.  So boxes are
        # numbered from behind.
        self.heap = Heap(values, places, spots, counts.boxes, comes_smaller, whole(0), whole(0))

    def number(self, of: int, within: int) -> Expr:
        """A number of the state, inside of a tensor for whoever reads the kernel."""
        return tirx.max(tirx.min(load(self.state, of), whole(within - 1)), whole(0))

    def note(self, of: int, value: Expr) -> tirx.Stmt:
        return store(self.state, [of], value)

    def collect(self, b: Expr, c: Expr, least: tirx.Var | None) -> list[tirx.Stmt]:
        """Make a heap of the candidates."""
        size, boxes = load(self.state, _LEFT), self.counts.boxes

        def take(i: Expr) -> tirx.Stmt:
            score = load(self.scores, b, c, i)
            to = self.number(_LEFT, boxes)
            put = self.heap.put(to, score, whole(boxes - 1) - i)
            every = sequence([*put, self.note(_LEFT, size + 1)])
            return every if least is None else when(score > load(least, 0), every)

        inner = tirx.floordiv(size, whole(2))
        return [
            self.note(_LEFT, whole(0)),
            self.note(_OWN, whole(0)),
            loop("i", boxes, take),
            loop("i", inner, lambda i: self.heap.sink(inner - 1 - i, size)),
        ]

    def choose(self, b: Expr, c: Expr, from_centers: bool) -> list[tirx.Stmt]:
        """Take one candidate after the other from the heap, the best first."""
        last = self.number(_LEFT, self.counts.boxes)
        place = whole(self.counts.boxes - 1) - self.heap.index(last)
        box = tirx.max(tirx.min(place, whole(self.counts.boxes - 1)), whole(0))

        def compare(s: Expr) -> tirx.Stmt:
            other = tirx.max(tirx.min(load(self.own, s), whole(self.counts.boxes - 1)), whole(0))
            one, two = (_corners(self.boxes, b, n, from_centers) for n in (box, other))
            beyond = _overlap_is_beyond(one, two, load(self.allowed, 0))
            alone = load(self.state, _OVERLAPS) == whole(0)
            return when(alone, when(beyond, self.note(_OVERLAPS, whole(1))))

        row = self.found.next
        keep = [
            store(self.chosen, [row, 0], b),
            store(self.chosen, [row, 1], c),
            store(self.chosen, [row, 2], box),
            store(self.own, [self.number(_OWN, self.most)], box),
            self.note(_OWN, load(self.state, _OWN) + 1),
            self.found.step(),
        ]
        candidate = [
            *self.heap.exchange(whole(0), self.number_before()),
            self.note(_LEFT, load(self.state, _LEFT) - 1),
            *self.heap.sink(whole(0), load(self.state, _LEFT)),
            self.note(_OVERLAPS, whole(0)),
            loop("s", load(self.state, _OWN), compare),
            when(load(self.state, _OVERLAPS) == whole(0), keep),
        ]
        goes_on = tirx.all(
            load(self.state, _LEFT) > whole(0), load(self.state, _OWN) < whole(self.most)
        )
        # Bound before the loop: its extent is looked at in each step, and the state changes.
        candidates, keep_candidates = bind_value("candidates", load(self.state, _LEFT))
        return [keep_candidates, loop("t", candidates, lambda _: when(goes_on, candidate))]

    def number_before(self) -> Expr:
        """The heap's last position."""
        last = load(self.state, _LEFT) - 1
        return tirx.max(tirx.min(last, whole(self.counts.boxes - 1)), whole(0))


def _corners(boxes: tirx.Var, b: Expr, box: Expr, from_centers: bool) -> Sequence[Expr]:
    """The least and greatest of both axes of a box."""
    one, two, three, four = (load(boxes, b, box, k) for k in range(4))
    if from_centers:
        half = real(2.0)
        return one - three / half, two - four / half, one + three / half, two + four / half
    return tirx.min(one, three), tirx.min(two, four), tirx.max(one, three), tirx.max(two, four)


def _overlap_is_beyond(one: Sequence[Expr], other: Sequence[Expr], allowed: Expr) -> Expr:
    none = real(0.0)
    sides = [tirx.min(one[k + 2], other[k + 2]) - tirx.max(one[k], other[k]) for k in (0, 1)]
    shared = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    union = areas[0] + areas[1] - shared
    positive = [side > none for side in (*sides, shared, *areas, union)]
    return tirx.all(*positive, shared / union > allowed)
