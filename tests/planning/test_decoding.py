"""Plans of decoders: what they are worth in tokens, and how many batches are in flight."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning import DecoderPlan, DecoderRequest, ask_in_turn, decoding, plan_decoder
from tvm_hetero.planning.decoder_plan import batches_to_fill, one_pass
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.objective import loads
from tvm_hetero.solvers import Options, solve

TWO = zoo.platform("diviml:2")
SMALL = {"layers": 6, "context": 512}
QUICK = Options(time_limit=1.0, deadline=60.0, gap=0.9)


@pytest.fixture(scope="module")
def six_servers() -> DecoderPlan:
    return plan_decoder(DecoderRequest("gpt3-175b", zoo.platform("gpt3-6node")))


def test_gpt3_on_six_servers(six_servers: DecoderPlan):
    assert six_servers.schedule.gap <= 0.01
    assert check_schedule(six_servers.problem, six_servers.schedule) == []
    assert six_servers.seconds_per_token == pytest.approx(six_servers.schedule.value)
    assert six_servers.tokens_per_second == pytest.approx(1 / six_servers.schedule.value)
    # Weights are 350 GB, the processors' memories 412 and the GPUs' 206.
    assert len(six_servers.schedule.placement) == 196


def test_a_batch_alone_is_simulated_for_throughput_and_known_for_latency():
    slow = plan_decoder(DecoderRequest("gpt2-xl", TWO, "latency", 2, parameters=SMALL), QUICK)
    assert one_pass(slow.problem, slow.schedule) == slow.schedule.value
    fast = plan_decoder(DecoderRequest("gpt2-xl", TWO, "throughput", 2, parameters=SMALL), QUICK)
    assert fast.pass_seconds >= slow.schedule.lower_bound
    assert fast.period == pytest.approx(fast.schedule.value)
    assert fast.period <= slow.period * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_a_plan_says_what_is_done_and_once_why_it_stopped(kind: str) -> None:
    said: list[str] = []
    told = replace(QUICK, tell=said.append)
    plan_decoder(DecoderRequest("gpt2-xl", TWO, kind, 2, parameters=SMALL), told)
    assert said[:2] == ["planning 1 batch in flight", "asking count-dp"]
    stops = [line for line in said if line.startswith("stopped: ")]
    assert stops == said[-1:]


def test_for_throughput_as_many_batches_as_keep_the_busiest_device_busy():
    plan = plan_decoder(DecoderRequest("llama2-7b", TWO, "throughput", 4, parameters=SMALL), QUICK)
    assert plan.in_flight >= plan.needed == batches_to_fill(plan.pass_seconds, plan.period)
    assert plan.at_best == pytest.approx(4 / plan.schedule.value)
    assert plan.tokens_per_second == pytest.approx(plan.at_best, rel=0.03)
    assert plan.seconds_per_token == pytest.approx(plan.sequences / plan.tokens_per_second)
    assert plan.sequences == 4 * plan.in_flight


def test_however_little_time_there_is_more_than_one_batch_is_tried():
    """One alone leaves all devices but one idle, which is no plan for throughput."""
    hurried = Options(time_limit=1e-6)
    plan = plan_decoder(DecoderRequest("gpt2-xl", TWO, "throughput", parameters=SMALL), hurried)
    assert plan.in_flight > 1


@pytest.mark.slow
def test_what_is_played_is_what_is_told():
    """Ways cross: nine batches could fill the busiest device, if they did not meet elsewhere."""
    wish = DecoderRequest("gpt3-175b", zoo.platform("gpt3-6node"), "throughput")
    plan = plan_decoder(replace(wish, in_flight=16))
    assert plan.schedule.gap <= 0.01
    assert plan.in_flight > plan.needed
    assert plan.tokens_per_second == pytest.approx(1 / plan.schedule.value, rel=0.02)
    least = plan_decoder(replace(wish, in_flight=plan.needed))
    assert least.played is not None
    assert least.tokens_per_second == least.played < 0.95 * least.at_best


def test_where_caches_do_not_fit_fewer_batches_are_in_flight():
    """The model takes 13.5 of 30 GB; each batch's caches 4.3."""
    wish = DecoderRequest("llama2-7b", TWO, "throughput", 8, parameters={"context": 1024})
    small = replace(TWO, devices=tuple(replace(d, memory=5 * 10**9) for d in TWO.devices))
    plan = plan_decoder(
        replace(wish, platform=small), Options(time_limit=2.0, deadline=60.0, gap=0.1)
    )
    assert 1 <= plan.in_flight < plan.needed
    assert plan.at_best == pytest.approx(8 * plan.in_flight / plan.pass_seconds)
    assert plan.tokens_per_second <= plan.at_best * 1.01
    peaks = memory_peaks(plan.problem, plan.schedule.executions, plan.schedule.copies)
    caches = zoo.work_graph("llama2-7b", context=1024)
    total = caches.weight_bytes + 8 * plan.in_flight * sum(w.cache for w in caches.works)
    assert sum(peaks.values()) >= total
    assert max(peaks.values()) <= 5 * 10**9


@pytest.mark.slow
def test_where_batches_are_far_too_few_the_least_latency_makes_more_tokens():
    """Memory ends it at six batches, where 25 would fill the busiest device: steps count."""
    wish = DecoderRequest("gpt3-175b", zoo.platform("mixed-4"), "throughput", 16)
    options = Options(time_limit=60.0, gap=0.1)
    steady = decoding._made(wish, 6, options, math.inf, quickly=True)
    plan = decoding._add_batches(steady, options, math.inf)
    assert steady.needed > 2 * steady.in_flight
    assert plan.pass_seconds < 0.8 * steady.pass_seconds
    assert plan.tokens_per_second > 1.2 * steady.tokens_per_second
    assert check_schedule(plan.problem, plan.schedule) == []
    assert plan.schedule.kind == "throughput"
    # No plan of six batches is better than six steps of the least latency.
    assert 0 < plan.pass_bound <= plan.pass_seconds
    assert 0 <= plan.gap <= 1 - plan.pass_bound / plan.pass_seconds + 1e-9
    assert plan.gap < steady.gap


def test_batches_that_are_asked_for_are_in_flight():
    plan = plan_decoder(DecoderRequest("gpt2-small", TWO, "latency", 2, 3, SMALL), QUICK)
    assert (plan.in_flight, plan.sequences) == (3, 6)
    busiest = max(loads(plan.problem, plan.schedule.executions, plan.schedule.copies).values())
    wanted = max(busiest, plan.pass_seconds / 3)
    assert plan.at_best == pytest.approx(2 / wanted)
    # All on the best device: batches wait for nothing else.
    assert plan.played == pytest.approx(plan.at_best, rel=0.03)
    assert plan.seconds_per_token == pytest.approx(3 * wanted, rel=0.03)


def test_the_least_number_that_fills():
    assert batches_to_fill(1.0, 0.25) == 4
    assert batches_to_fill(1.0, 0.24) == 5
    assert batches_to_fill(0.3, 0.1) == 3  # 0.3 / 0.1 is 2.9999999999999996 or 3.0000000000000004
    assert batches_to_fill(0.0, 0.0) == 1


def test_lighter_weights_need_less_memory_and_time():
    plans = [
        plan_decoder(DecoderRequest("llama2-7b", TWO, parameters=SMALL | {"weights": weights}))
        for weights in ("float16", "int4")
    ]
    assert plans[1].seconds_per_token < 0.5 * plans[0].seconds_per_token


def test_refusals():
    with pytest.raises(InfeasibleError, match=r"memory|GiB"):
        plan_decoder(DecoderRequest("gpt3-175b", TWO), Options(time_limit=1.0))
    with pytest.raises(UsageError, match="at least 1"):
        plan_decoder(DecoderRequest("gpt2-small", TWO, in_flight=0))
    with pytest.raises(UsageError, match="not 'energy'"):
        plan_decoder(DecoderRequest("gpt2-small", TWO, "energy"))  # type: ignore[arg-type]


class SolvesClock:
    """A clock that only moves when something is solved."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 100.0, seconds

    def __call__(self) -> float:
        return self.now


def handed_on(monkeypatch: pytest.MonkeyPatch, wish: DecoderRequest, limit: float, each: float):
    """What every solver of a plan is told where a solve takes `each` s: name and options."""
    clock = SolvesClock(each)
    told = []

    def solved(problem, name, options):
        told.append((name, options))
        clock.now += clock.seconds
        real = solve(problem, name if name != "auto" else "single", Options(time_limit=0.5))
        return replace(real, lower_bound=0.0)

    monkeypatch.setattr(ask_in_turn, "solve", solved)
    plan = plan_decoder(wish, Options(time_limit=limit, clock=clock))
    return told, plan


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_the_time_limit_is_one_for_all_solves(monkeypatch, kind):
    """Each is told what the ones before it have left; none begins after the end."""
    wish = DecoderRequest("gpt2-xl", TWO, kind, 2, parameters=SMALL)
    told, plan = handed_on(monkeypatch, wish, 10.0, 1.0)
    clocks = [options.deadline for _, options in told]
    assert clocks == [10.0 - i for i in range(len(clocks))]
    assert len(told) > 1
    assert told[-1][0] == "auto"
    assert plan.seconds == len(told) <= 10


def test_the_work_of_a_climb_does_not_depend_on_the_clock(monkeypatch):
    wish = DecoderRequest("gpt2-xl", TWO, "throughput", parameters=SMALL)
    told, _ = handed_on(monkeypatch, wish, 20.0, 1.0)
    climbed = [options.time_limit for name, options in told if name == "count-dp"][:-1]
    assert len(set(climbed)) == 1


def test_no_solve_begins_that_is_likely_to_end_late(monkeypatch):
    """The first batch alone is no plan; a second solve is made, a third would end at 12 s."""
    wish = DecoderRequest("gpt2-xl", TWO, "throughput", parameters=SMALL)
    told, plan = handed_on(monkeypatch, wish, 10.0, 4.0)
    names = [name for name, _ in told]
    assert names[:2] == ["count-dp", "count-dp"]
    assert plan.in_flight > 1
    assert [options.deadline for _, options in told] == [10.0, 6.0, 2.0][: len(told)]


def test_without_time_solvers_are_given_the_least_until_there_is_a_plan(monkeypatch):
    wish = DecoderRequest("gpt2-xl", TWO, "throughput", parameters=SMALL)
    told, plan = handed_on(monkeypatch, wish, 1.0, 2.0)
    assert [(name, options.deadline) for name, options in told] == [("count-dp", 3.0)] * 2
    assert plan.in_flight > 1
