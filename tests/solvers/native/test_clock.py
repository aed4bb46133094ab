"""How much a search in C++ does after its time is up, in counts: clocks are looked at by work."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from tests.solvers.examples import problem_of, processors
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.batches.range_search import StreamSearch, _anneal, _RangeSearch
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.views.instance import Instance

# Items that no machine decodes in a tenth of a second: they take 40 ns each and more.
A_TENTH = 4_000_000


def chain(length: int, batch: int = 1) -> Problem:
    """Equal tasks one after the other on two equal devices."""
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(length)}
    edges = [(f"t{i}", f"t{i + 1}", 8) for i in range(length - 1)]
    problem = problem_of(costs, edges, processors(2, bandwidth=1e3))
    return replace(problem, objective=Objective("latency", batch))


def test_annealing_whose_time_is_up_looks_at_one_candidate() -> None:
    # It looked after each 16th only, however many tasks each of them decodes.
    search = NativeSearch(Instance(chain(400)))
    found = search.anneal([0] * 400, range(400), work=10**9, seed=0, deadline=0.0)
    assert found.stopped
    assert found.evaluations <= 1


def test_a_search_of_divisions_ends_within_milliseconds_of_work() -> None:
    # Of 1,000 tasks in 60 streams a step decodes up to 60,000 items; the clock was asked every 256.
    tasks, streams = 1_000, 60
    search = StreamSearch(Instance(chain(tasks, batch=streams)))
    counts = np.ones((tasks, streams), np.int32)
    device = np.tile(np.arange(streams, dtype=np.int32) % 2, (tasks, 1))
    sequence = np.arange(tasks * streams, dtype=np.int32)
    settings = _RangeSearch(10**9, 0, 1e6, 0.1, 0.0, 0)
    problem = search._problem(streams)
    code = _anneal()(
        ctypes.byref(problem), ctypes.byref(settings),
        counts.ctypes.data, device.ctypes.data, sequence.ctypes.data,
    )  # fmt: skip
    assert (code, settings.stopped) == (0, 1)
    assert settings.work <= A_TENTH
