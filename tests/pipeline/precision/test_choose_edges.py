"""Which tensors are in bfloat16: the least of all choices, by brute force."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.passes.narrow_edges import NarrowEdge
from tvm_hetero.pipeline.precision.choose_edges import choose_edges

Times = dict[tuple[int, bool, bool], float]


class Seconds:
    """Of a table; what is not in it is infinite."""

    def __init__(self, times: Times) -> None:
        self.times = times

    def __call__(self, task: int, *, reads: bool, writes: bool) -> float:
        return self.times.get((task, reads, writes), math.inf)


def total(edges: list[NarrowEdge], chosen: list[NarrowEdge], seconds: Seconds) -> float:
    tasks = {task for edge in edges for task in (edge.writer, *edge.readers)}
    return math.fsum(
        seconds(
            task,
            reads=any(task in edge.readers for edge in chosen),
            writes=any(task == edge.writer for edge in chosen),
        )
        for task in sorted(tasks)
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[NarrowEdge], Seconds]:
    """Tasks of which each but the first ones may read one that stands before it."""
    count = draw(st.integers(2, 7))
    readers: dict[int, list[int]] = {}
    for task in range(1, count):
        before = draw(st.none() | st.integers(0, task - 1))
        if before is not None:
            readers.setdefault(before, []).append(task)
    edges = [NarrowEdge(writer, tuple(found)) for writer, found in sorted(readers.items())]
    every = product(range(count), (False, True), (False, True))
    times = {key: float(draw(st.integers(1, 9))) for key in every}
    for key in draw(st.lists(st.sampled_from(sorted(times)), max_size=2, unique=True)):
        if key[1] or key[2]:
            del times[key]  # it was not measured
    return edges, Seconds(times)


@settings(max_examples=draws(150))
@given(problems())
def test_no_choice_takes_less(problem: tuple[list[NarrowEdge], Seconds]) -> None:
    edges, seconds = problem
    best = min(
        total(edges, [e for e, on in zip(edges, choice, strict=True) if on], seconds)
        for choice in product((False, True), repeat=len(edges))
    )
    assert total(edges, choose_edges(edges, seconds), seconds) == pytest.approx(best)


def test_a_slower_writer_is_taken_for_a_quicker_reader_but_not_for_nothing() -> None:
    edge = NarrowEdge(0, (1, 2))
    times = dict.fromkeys(product((0, 1, 2), (False, True), (False, True)), 1.0)
    assert choose_edges([edge], Seconds(times)) == []
    times |= {(0, False, True): 1.5, (1, True, False): 0.7, (2, True, False): 0.9}
    assert choose_edges([edge], Seconds(times)) == []
    times[2, True, False] = 0.7
    assert choose_edges([edge], Seconds(times)) == [edge]
    del times[2, True, False]
    assert choose_edges([edge], Seconds(times)) == []


def test_nothing_is_chosen_of_nothing() -> None:
    assert choose_edges([], Seconds({})) == []
