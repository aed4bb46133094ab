"""Plans on all cores are watched; what happens is told as sentences, and computes the same."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.online.live.models import INPUTS, adaptable, as_bytes
from tests.online.settings import observe, single_cores
from tests.waiting import eventually
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.adapter import AdaptationEvent
from tvm_hetero.online.policy import Setting
from tvm_hetero.serve.core.events import INTERFERENCE, SWITCH, ServerEvent
from tvm_hetero.serve.models.adapted_share import Adaptation, AdaptationTeller, AdaptedShare
from tvm_hetero.serve.models.share_instances import ShareInstances

TWO, OTHER = Configuration((3, 6), (0, 1)), Configuration((4, 6), (0, 1))
QUIET, SLOW = ((1.0, 1.0),) * 6, ((1.0, 1.6),) * 6


@pytest.mark.parametrize(
    ("equal", "shape", "policy"),
    [(False, "stream", "resolve"), (True, "stream", "static"), (False, "single", "static")],
)
def test_which_plans_are_watched_and_by_which_policy(equal, shape, policy):
    executable = adaptable(equal=equal)
    with Executor(executable) as alone:
        right = as_bytes(alone.run(INPUTS))
    told: list[ServerEvent] = []
    before = threading.active_count()
    with ShareInstances(executable, 8, "net", Adaptation(told.append)) as instances:
        cores = sorted(instances.plans.cores)
        whole = instances.make(frozenset(cores), shape)
        assert isinstance(whole, AdaptedShare)
        assert (whole.policy, whole.idle) == (policy, "")
        assert not isinstance(instances.make(frozenset(cores[:1]), shape), AdaptedShare)
        for _ in range(50):
            assert as_bytes(whole.run(INPUTS)) == right or not equal
    assert eventually(lambda: threading.active_count() <= before)
    assert not [each for each in told if "not adapted any more" in each.text]


def test_without_the_option_nothing_is_watched():
    with ShareInstances(adaptable(equal=True), 8) as instances:
        whole = instances.make(instances.plans.cores, "stream")
        assert type(whole) is Executor
        assert len(whole.take_watched()) == 0


def _event(seconds, configuration=TWO, switched=False, cause="") -> AdaptationEvent:
    seen = observe(seconds, configuration)
    return AdaptationEvent(0.0, seen, "0-3@big0 4-5@big1", switched, "keep", "it is better", cause)


def test_interference_and_switches_are_told_once_each():
    told: list[ServerEvent] = []
    setting = Setting(single_cores("big", "big"), (1.0,) * 6, TWO, QUIET)
    teller = AdaptationTeller("net", setting, told.append)
    for _ in range(4):
        teller.tell(_event(QUIET))
    assert told == []
    for _ in range(5):
        teller.tell(_event(SLOW, cause="stage 1 on big1 takes 1.60 times as long: a reason"))
    teller.tell(_event(SLOW, switched=True))
    teller.tell_failure(MemoryError("no room"))
    texts = [replace(each, at=0.0) for each in told]
    assert texts == [
        ServerEvent(INTERFERENCE, "stage 1 on big1 takes 1.60 times as long: a reason", "net", 0.0),
        ServerEvent(SWITCH, "it is better; now 0-3@big0 4-5@big1", "net", 0.0),
        ServerEvent(SWITCH, "is not adapted any more; it goes on as it is (no room)", "net", 0.0),
    ]
    for _ in range(4):
        teller.tell(_event(QUIET))
    assert "is over" in told[-1].text
