"""Kernels steps that the executor refuses: each argument's memory is checked at load."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.executor.kernel_plans import KernelPlan, call, one_call, view
from tests.executor.native_plans import create, refused

Change = Callable[[dict[str, Any]], object]


def _step(plan: dict[str, Any]) -> Any:
    return plan["steps"][0]


def _arg(plan: dict[str, Any], call_: int, arg: int) -> Any:
    return plan["steps"][0]["calls"][call_]["args"][arg]


# What is done to `one_call`: twice(in 0) -> scratch 0; add(scratch 0, in 1) -> out 0.
BROKEN_KERNELS: dict[str, tuple[Change, list[str]]] = {
    "no calls": (lambda p: _step(p).pop("calls"), ["steps[0].calls is missing"]),
    "no written": (
        lambda p: _step(p)["calls"][1].pop("written"),
        ["steps[0].calls[1].written is missing"],
    ),
    "unknown key of an arg": (
        lambda p: _arg(p, 1, 0).update(offset=3),
        ["unknown key steps[0].calls[1].args[0].offset"],
    ),
    "arg of two places": (
        lambda p: _arg(p, 0, 0).update(out=0),
        ["steps[0].calls[0].args[0]", "exactly one of"],
    ),
    "arg of no place": (
        lambda p: _arg(p, 0, 0).pop("in"),
        ["steps[0].calls[0].args[0]", "exactly one of"],
    ),
    "dtype of an arg": (
        lambda p: _arg(p, 0, 0).update(dtype="flaot32"),
        ["steps[0].calls[0].args[0].dtype", "flaot32"],
    ),
    "shape of an arg": (lambda p: _arg(p, 0, 0).update(shape=[-32]), ["args[0]", "-32"]),
    "in that is not there": (
        lambda p: _arg(p, 0, 0).update({"in": 2}),
        ["steps[0] 's0': calls[0] 'the twice': args[0]: in is 2", "2 ins"],
    ),
    "negative in": (lambda p: _arg(p, 0, 0).update({"in": -1}), ["in is -1"]),
    "out that is not there": (lambda p: _arg(p, 1, 2).update(out=1), ["out is 1", "1 outs"]),
    "view of another size": (
        lambda p: _arg(p, 0, 0).update(shape=[31]),
        ["args[0] has 124 bytes", "the 128 of slots[0] 't0'"],
    ),
    "out of another size": (
        lambda p: _arg(p, 1, 2).update(dtype="float64"),
        ["args[2] has 256 bytes", "the 128 of slots[2] 't2'"],
    ),
    "out slot without a type": (
        lambda p: [p["slots"][2].pop(key) for key in ("shape", "dtype")],
        ["slots[2] 't2' has no shape and dtype", "steps[0] 's0'"],
    ),
    "negative scratch": (lambda p: _step(p).update(scratch=-64), ["scratch is -64"]),
    "endless scratch": (lambda p: _step(p).update(scratch=2**62), ["below 2^60"]),
    "crooked offset": (lambda p: _arg(p, 0, 1).update(scratch=4), ["scratch is 4", "64"]),
    "negative offset": (lambda p: _arg(p, 0, 1).update(scratch=-64), ["scratch is -64"]),
    "beyond the end": (
        lambda p: _arg(p, 0, 1).update(scratch=64),
        ["128 bytes at 64", "scratch of 128"],
    ),
    "far beyond the end": (
        lambda p: _arg(p, 0, 1).update(scratch=2**63 - 64),
        ["scratch of 128"],
    ),
    "writes nothing": (
        lambda p: _step(p)["calls"][0].update(written=0),
        ["calls[0] 'the twice': written is 0", "its 2 args"],
    ),
    "writes more than it has": (
        lambda p: _step(p)["calls"][0].update(written=3),
        ["written is 3", "its 2 args"],
    ),
    "writes an in": (
        lambda p: _step(p)["calls"][0].update(written=2),
        ["args[0] writes in 0", "an out or scratch"],
    ),
    "reads what is not written": (
        lambda p: _step(p)["calls"].reverse(),
        ["calls[0] 'the add': args[0] reads scratch from 0 to 128", "no earlier call"],
    ),
    "reads half of what is written": (
        lambda p: (_step(p).update(scratch=192), _arg(p, 1, 0).update(scratch=64)),
        ["args[0] reads scratch from 64 to 192"],
    ),
    "reads an out too early": (
        lambda p: _step(p)["calls"][0]["args"].__setitem__(0, view("out", 0)),
        ["args[0] reads out 0"],
    ),
    "writes what it reads": (
        lambda p: _step(p)["calls"].insert(
            1, call("negate", view("scratch", 0), view("scratch", 0))
        ),
        ["calls[1] 'the negate': args[1] writes scratch from 0 to 128", "args[0]"],
    ),
    "an out that nobody writes": (
        lambda p: _step(p)["calls"].pop(),
        ["no call writes its out 0", "slots[2] 't2'"],
    ),
    "kernels on a device without addresses": (
        lambda p: p["devices"][0].update(dl_type=7),
        ["steps[0] 's0' runs kernels on vulkan:0", "CPU, CUDA or ROCm"],
    ),
}


@pytest.mark.parametrize("case", BROKEN_KERNELS)
def test_broken_kernels_are_refused_in_words(case: str) -> None:
    change, expected = BROKEN_KERNELS[case]
    plan = copy.deepcopy(one_call().plan)
    change(plan)
    message = refused(plan)
    assert [text for text in expected if text not in message] == [], message
    assert message.startswith("plan: ")


@given(
    spans=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=6),
    read=st.tuples(st.integers(0, 7), st.integers(0, 3)),
)
@settings(max_examples=draws(36), deadline=None)
def test_a_read_of_scratch_is_refused_unless_all_of_it_was_written(
    spans: list[tuple[int, int]], read: tuple[int, int]
) -> None:
    plan = KernelPlan()
    x = plan.vector()
    size = 64 * 11

    def piece(start: int, length: int) -> dict[str, Any]:
        return view("scratch", 64 * start, [16 * length])

    calls = [call("fill", view("in", 0), piece(*span)) for span in spans]
    calls.append(call("read", piece(*read), view("out", 0)))
    plan.output(plan.kernels([x], calls, scratch=size)[0])
    written = {64 * start + k for start, length in spans for k in range(64 * length)}
    wanted = {64 * read[0] + k for k in range(64 * read[1])}
    if wanted <= written:
        create(plan.plan)
    else:
        assert "no earlier call" in refused(plan.plan)
