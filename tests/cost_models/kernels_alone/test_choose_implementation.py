"""Several implementations of one kernel: the fastest right one is taken, whatever the others do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.cost_models.kernel_samples import (
    PATIENCE,
    aborting,
    hanging,
    here,
    scaling,
    segfaulting,
    sleeping,
    unbuildable,
)
from tests.kernels.cpu.test_counter_modulo import repetition
from tests.kernels.helpers import AVX512, runs_here
from tvm_hetero.cost_models.kernels_alone.kernel_values import find_difference
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import ProfileWarning
from tvm_hetero.cost_models.store import CostStore, Tuning
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ProfileError
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    RULE,
    RULE_ATTR,
    TUNED,
    implementation_of,
    without_implementation,
)
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.problem.implementation_choice import Choice

HASTY = SamplingPolicy(budget=0.001, rounds=1)
SLOW, QUICK = sleeping("slow", 3000), sleeping("quick", 0)
PLATFORM = here()
TARGET = str(device_target(PLATFORM.devices[0]))
# How to compute each kernel: implementation -> kernel. Absent: as the kernel itself.
Ways = Mapping[str, Mapping[str, Kernel]]


def scheduler(ways: Ways) -> Callable[[tvm.tirx.PrimFunc, tvm.target.Target], tvm.tirx.PrimFunc]:
    """Schedules a kernel (told by its attribute ``kernel``) as `ways` say."""

    def schedule(func: tvm.tirx.PrimFunc, _target: tvm.target.Target) -> tvm.tirx.PrimFunc:
        name, how = str(func.attrs["kernel"]), implementation_of(func)
        chosen = ways.get(name, {}).get(how)
        made = without_implementation(func) if chosen is None else chosen.func
        return made.with_attr("kernel", name).with_attr(RULE_ATTR, "generic")

    return schedule


def profile(
    folder: Path, ways: Ways, tuned: tuple[str, ...] = (), effort: SamplingPolicy = HASTY
) -> tuple[dict[str, Choice], list[str], ProfiledCosts]:
    """Profile kernels of these names; answers choices, warnings and the model."""
    store = CostStore(folder / "costs.sqlite")
    kernels = [Kernel(n, QUICK.func.with_attr("kernel", n)) for n in ways]
    for kernel in kernels:
        if kernel.name in tuned:
            store.set_tuning(kernel_key(kernel.func), TARGET, Tuning("[1]", 1e-6, 1e-3, 8))
    model = ProfiledCosts(store, effort, scheduler(ways))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        costs = model.costs(kernels, PLATFORM)
    texts = [str(w.message) for w in caught if issubclass(w.category, ProfileWarning)]
    choices = {kernel: choice for (kernel, _), choice in model.profile.choices.items()}
    for name, row in costs.items():
        assert choices[name].timing is not None
        assert row["cpu0"].seconds(1) == choices[name].timing.seconds
        assert row["cpu0"].implementation == choices[name].implementation
    return choices, texts, model


def test_the_faster_one_is_taken_and_found_again(tmp_path: Path) -> None:
    ways: Ways = {
        "default wins": {RULE: SLOW, DEFAULT: QUICK},
        "rule wins": {RULE: QUICK, DEFAULT: SLOW},
        "tuned wins": {RULE: SLOW, DEFAULT: SLOW, TUNED: QUICK},
        "tuned is slow": {TUNED: SLOW},
    }
    tuned = ("tuned wins", "tuned is slow")
    choices, texts, model = profile(tmp_path, ways, tuned)
    assert {name: choice.implementation for name, choice in choices.items()} == {
        "default wins": DEFAULT,
        "rule wins": RULE,
        "tuned wins": TUNED,
        "tuned is slow": RULE,
    }
    assert texts == [] and model.runs == 4
    assert model.profile.traces == {"tuned wins": {"cpu0": "[1]"}}
    # Equal schedules are one implementation, so "tuned wins" has no default of its own.
    assert list(choices["tuned wins"].times) == [RULE, TUNED]
    assert all(t.spread is not None for c in choices.values() for t in c.times.values())
    again, _, other = profile(tmp_path, ways, tuned)
    assert again == choices and other.runs == 0
    assert other.profile.traces == model.profile.traces


def test_a_contest_that_the_rule_has_won_is_not_held_again(tmp_path: Path) -> None:
    ways: Ways = {
        "rule wins": {RULE: QUICK, DEFAULT: SLOW},
        "default wins": {RULE: SLOW, DEFAULT: sleeping("plain", 0)},
    }
    _, _, first = profile(tmp_path / "one", ways)
    won = first.winners()
    assert sorted(won.values()) == [DEFAULT, RULE]
    kernels = [Kernel(n, QUICK.func.with_attr("kernel", n)) for n in ways]
    store = CostStore(tmp_path / "two.sqlite")
    second = ProfiledCosts(store, HASTY, scheduler(ways), decided=won)
    second.costs(kernels, PLATFORM)
    choices = {kernel: choice for (kernel, _), choice in second.profile.choices.items()}
    assert set(choices["rule wins"].times) == {RULE}
    assert set(choices["default wins"].times) == {RULE, DEFAULT}
    assert choices["default wins"].implementation == DEFAULT


BAD = [
    (aborting, "SIGABRT"),
    (segfaulting, "SIGSEGV"),
    (unbuildable, "cannot be compiled"),
    (hanging, "did not end within"),
]


def test_bad_candidates_cost_only_themselves_wherever_they_stand(tmp_path: Path) -> None:
    hurt = [f"k{i}" for i in range(len(BAD))]
    ways: dict[str, Mapping[str, Kernel]] = {
        name: {DEFAULT: bad(), TUNED: sleeping("t", 2000)}
        for name, (bad, _) in zip(hurt, BAD, strict=True)
    }
    ways = {"first": {DEFAULT: SLOW}, **ways, "last": {DEFAULT: SLOW}}
    for limit in PATIENCE:
        effort = replace(HASTY, time_limit=limit)
        choices, texts, _ = profile(tmp_path / f"{limit:g}", ways, tuple(hurt), effort)
        if sum("did not end" in text for text in texts) == 1:
            break
    assert {choice.implementation for choice in choices.values()} == {RULE}
    assert set(choices["first"].times) == set(choices["last"].times) == {RULE, DEFAULT}
    assert len(texts) == len(BAD)
    for name, (_, reason) in zip(hurt, BAD, strict=True):
        assert (
            set(choices[name].times) == {RULE, TUNED} and reason in choices[name].refused[DEFAULT]
        )
        (text,) = (text for text in texts if f"'{name}' on device 'cpu0'" in text)
        assert "default is refused" in text and reason in text


def test_a_candidate_with_another_output_is_refused(tmp_path: Path) -> None:
    ways = {"k": {RULE: SLOW, TUNED: scaling(), DEFAULT: sleeping("plain", 1000)}}
    choices, texts, model = profile(tmp_path, ways, ("k",))
    assert choices["k"].implementation == DEFAULT
    assert "something else than the plain loop nest" in choices["k"].refused[TUNED]
    assert len(texts) == 1 and "tuned is refused" in texts[0] and "is off by" in texts[0]
    assert model.profile.traces == {}


@pytest.mark.parametrize("tuned", [(), ("k",)])
def test_a_rule_with_another_output_than_the_plain_nest_is_refused(
    tmp_path: Path, tuned: tuple[str, ...]
) -> None:
    """Also the second time: the time of a wrong kernel must not come back out of the store."""
    ways = {"k": {RULE: scaling(), DEFAULT: SLOW, TUNED: QUICK}}
    for _ in range(2):
        choices, texts, _ = profile(tmp_path, ways, tuned)
        assert choices["k"].implementation == (TUNED if tuned else DEFAULT)
        assert "the plain loop nest" in choices["k"].refused[RULE]
        assert len(texts) == 1 and "rule is refused" in texts[0]


def test_what_llvm_compiles_wrongly_is_not_taken(tmp_path: Path) -> None:
    """The last bits by shifts, which LLVM 22.1 takes for a counter: rule and nest wrong alike."""
    if not runs_here(AVX512):
        pytest.skip("LLVM is right for narrower vectors")

    def modulo(j: tvm.tirx.PrimExpr) -> tvm.tirx.PrimExpr:
        thirty = tvm.tirx.const(30, "int32")
        high = tvm.tirx.shift_left(tvm.tirx.Cast("int32", j), thirty)
        low = tvm.tirx.shift_right(
            tvm.tirx.reinterpret("uint32", high), tvm.tirx.const(30, "uint32")
        )
        return tvm.tirx.Cast("int64", low) * 3

    def schedule(func: tvm.tirx.PrimFunc, _target: tvm.target.Target) -> tvm.tirx.PrimFunc:
        return without_implementation(func).with_attr(RULE_ATTR, "generic")

    target = {"kind": "llvm", "mcpu": "x86-64-v4"}
    device = replace(PLATFORM.devices[0], target=target)
    model = ProfiledCosts(CostStore(tmp_path / "costs.sqlite"), HASTY, schedule)
    with (
        pytest.warns(ProfileWarning, match="without LLVM's optimisations"),
        pytest.raises(ProfileError, match="no device"),
    ):
        model.costs([Kernel("k", repetition(modulo))], replace(PLATFORM, devices=(device,)))


def test_the_plain_nest_takes_the_place_of_a_rule_that_cannot_run(tmp_path: Path) -> None:
    ways = {
        "crashes": {RULE: aborting(), DEFAULT: SLOW},
        "broken": {RULE: unbuildable(), DEFAULT: SLOW},
        "good": {},
    }
    for _ in range(2):
        choices, texts, _ = profile(tmp_path, ways)
        assert choices["crashes"].implementation == choices["broken"].implementation == DEFAULT
        assert "SIGABRT" in choices["crashes"].refused[RULE]
        assert choices["good"].implementation == RULE
        assert sorted("rule is refused" in text for text in texts) == [True, True]


def test_rounding_is_no_difference() -> None:
    values = np.linspace(-3.0, 3.0, 100, dtype=np.float32)
    assert find_difference([values], [values * np.float32(1 + 1e-6)]) is None
    assert "off by" in (find_difference([values], [values + np.float32(0.01)]) or "")
    half = values.astype(np.float16)
    assert find_difference([half], [(values + np.float32(0.01)).astype(np.float16)]) is None
    spoilt = values.copy()
    spoilt[7] = np.nan
    assert "not finite" in (find_difference([values], [spoilt]) or "")
    assert find_difference([spoilt], [spoilt]) is None
    numbers = np.arange(5)
    assert find_difference([numbers], [numbers]) is None
    assert "differs in 1" in (
        find_difference([numbers], [np.where(numbers == 2, 9, numbers)]) or ""
    )
    empty = np.zeros((0, 3), np.float32)
    assert find_difference([empty], [empty]) is None


def test_lost_ones_get_no_more_turns() -> None:
    from tvm_hetero.cost_models.kernels_alone.sampling import spread, still_in

    assert still_in([[], []]) == [0, 1]
    assert still_in([[1.0], [9.0]]) == [0, 1]
    assert still_in([[1.0, 1.0], [9.0, 1.6]]) == [0]
    assert still_in([[1.0, 1.0], [9.0, 1.4]]) == [0, 1]
    assert spread([4.0, 1.0, 2.0, 3.0]) == 1.0
    assert spread([]) == spread([5.0]) == 0.0
