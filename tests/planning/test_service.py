"""Services: steps and chunks by hand, queueing theory, and the plans that they run on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.planning import DecoderPlan, DecoderRequest, plan_decoder
from tvm_hetero.planning.requests import ServiceRequest, parse_lengths, poisson
from tvm_hetero.planning.route import Route, in_order, make_route
from tvm_hetero.planning.service import Service, ServiceOutcome, play, steady_rate
from tvm_hetero.planning.services import service_of
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options


def line(costs: list[Cost], batch: int) -> Route:
    """A chain of tasks, each on a device of its own, joined by links that take no time."""
    tasks = [Task(f"t{i}", output_bytes=8) for i in range(len(costs))]
    edges = [Edge(f"t{i}", f"t{i + 1}", 8) for i in range(len(costs) - 1)]
    platform = Platform(
        tuple(Device(f"d{i}", overlap=True) for i in range(len(costs))), fabrics=(Fabric("node0"),)
    )
    table = {f"t{i}": {f"d{i}": cost} for i, cost in enumerate(costs)}
    problem = Problem(TaskGraph(tasks, edges), table, platform, Objective("latency", batch))
    steps = [(f"t{i}", f"d{i}", tuple(range(batch))) for i in range(len(costs))]
    return make_route(problem, in_order(problem, steps))


def flat(seconds: float, batch: int = 1) -> Cost:
    """As long for any number of elements."""
    return Cost(((1, seconds),)) if batch == 1 else Cost(((1, seconds), (batch, seconds)))


def times(outcome: ServiceOutcome) -> list[tuple[float, float, float]]:
    return [(s.admitted, s.first, s.last) for s in outcome.served]


def test_sequences_come_and_go_step_by_step():
    """Two slots, a step takes a second whoever takes part; the third request waits for a slot."""
    service = Service(line([flat(1.0, 2)], 2), groups=1, batch=2)
    outcome = play(
        service, [ServiceRequest(0, 1, 3), ServiceRequest(0, 1, 1), ServiceRequest(0, 1, 2)], 10.0
    )
    # The first sets out alone, the second joins its second step, the third takes its place.
    assert times(outcome) == [(0, 1, 3), (0, 2, 2), (2, 3, 4)]
    assert (outcome.steps, outcome.chunks, outcome.tokens) == (4, 0, 6)
    assert outcome.active == 6 / 4
    assert outcome.busy == {"d0": 0.4}
    assert outcome.end == 4


def test_a_prompt_without_chunks_goes_in_by_steps():
    service = Service(line([flat(1.0)], 1), groups=1, batch=1)
    assert times(play(service, [ServiceRequest(0, 5, 2)], 10.0)) == [(0, 5, 6)]


@pytest.mark.parametrize(
    ("prompt", "chunks", "steps"), [(8, 1, 0), (10, 2, 0), (9, 1, 1), (1, 0, 1), (25, 3, 1)]
)
def test_a_prompt_goes_in_by_chunks_but_for_a_small_rest(prompt: int, chunks: int, steps: int):
    """A chunk has 8 tokens and takes 5 s, a step 1 s; one token is a rest, two are not."""
    service = Service(line([flat(1.0)], 1), 1, 1, 8, (line([flat(5.0)], 1),))
    outcome = play(service, [ServiceRequest(0, prompt, 1)], 100.0)
    assert (outcome.chunks, outcome.steps) == (chunks, steps)
    assert outcome.served[0].first == 5 * chunks + steps


def test_others_are_not_kept_waiting_by_a_long_prompt():
    """At most as many chunks in a row as slots while somebody waits for a step."""
    service = Service(line([flat(1.0, 2)], 2), 1, 2, 8, (line([flat(5.0)], 1),) * 2)
    outcome = play(service, [ServiceRequest(0, 1, 50), ServiceRequest(0.5, 80, 1)], 500.0)
    assert outcome.chunks == 10
    # Step at 0; then two chunks, a step, two chunks, a step, ...
    assert outcome.served[1].first == pytest.approx(1 + 10 * 5 + 4 * 1)
    assert outcome.served[0].last == pytest.approx(50 + 10 * 5)


def test_padded_steps_cost_as_much_as_full_ones():
    table = Cost(((1, 1.0), (4, 4.0)))
    for padded, seconds in ((False, 1.0), (True, 4.0)):
        service = Service(line([table], 4), 1, 4, padded=padded)
        assert play(service, [ServiceRequest(0, 1, 1)], 10.0).served[0].first == seconds


def test_groups_follow_each_other_down_the_line():
    """Three devices of a second each, three groups: a token a second, each of three seconds."""
    route = line([flat(1.0)] * 3, 1)
    outcome = play(Service(route, 3, 1), [ServiceRequest(0, 1, 100)] * 3, 90.0, 30.0)
    assert outcome.tokens / outcome.seconds == pytest.approx(1.0, rel=0.02)
    assert all(s.each == pytest.approx(3.0) for s in outcome.served)
    assert steady_rate(Service(route, 3, 1), 90.0, 30.0) == pytest.approx(1.0, rel=0.02)
    assert steady_rate(Service(route, 2, 1), 90.0, 30.0) == pytest.approx(2 / 3, rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_server_waits_as_pollaczek_and_khinchine_say(load: float):
    """M/D/1: Poisson arrivals, one slot, one step each; the mean wait is known."""
    service = Service(line([flat(1.0)], 1), 1, 1)
    one = parse_lengths("1")
    outcome = play(service, poisson(load, 8_000.0, one, one, seed=1), 8_000.0)
    waits = [s.admitted - s.request.arrival for s in outcome.served]
    expected = load / (2 * (1 - load))
    assert math.fsum(waits) / len(waits) == pytest.approx(expected, rel=0.1)
    assert outcome.busy["d0"] == pytest.approx(load, rel=0.03)


@settings(max_examples=draws(20), deadline=None)
@given(
    rate=st.floats(0.02, 2.0), seed=st.integers(0, 99), groups=st.integers(1, 3),
    batch=st.integers(1, 3), chunk=st.sampled_from([1, 4]),
)  # fmt: skip
def test_little_s_law(rate: float, seed: int, groups: int, batch: int, chunk: int):
    """Mean number in the system = rate x mean time in it; the two are counted apart."""
    chunks = () if chunk == 1 else (line([flat(1.0), flat(2.0)], 1),) * batch
    step = line([flat(0.5, batch), flat(0.2, batch)], batch)
    service = Service(step, groups, batch, chunk, chunks)
    lengths = parse_lengths("uniform:1:9")
    requests = poisson(rate, 40.0 + 3 / rate, lengths, lengths, seed)
    outcome = play(service, requests, 40.0)
    mean = math.fsum(s.in_system for s in outcome.served) / len(requests)
    assert outcome.in_system == pytest.approx(len(requests) / outcome.end * mean, rel=1e-9)
    assert all(s.made == s.request.output for s in outcome.served)
    assert max(outcome.busy.values()) <= 1 + 1e-9
    assert all(s.request.arrival <= s.admitted < s.first <= s.last for s in outcome.served)


@pytest.fixture(scope="module")
def filled() -> DecoderPlan:
    """GPT-3 13B for many sequences on two servers of unlike devices."""
    wish = DecoderRequest(
        "gpt3-13b", zoo.platform("diviml:2"), "throughput", 4, 24, {"context": 256}
    )
    return plan_decoder(wish, Options(time_limit=5.0, gap=0.1))


def test_the_steady_state_is_that_of_the_plan_s_bottleneck(filled: DecoderPlan):
    """More requests than slots, long outputs: the busiest device works all the time."""
    service = service_of(filled, 1)
    each = filled.seconds_per_token
    requests = [ServiceRequest(0.0, 1, 20)] * (2 * filled.sequences)
    outcome = play(service, requests, 30 * each, 5 * each)
    busiest = max(outcome.busy, key=lambda r: outcome.busy[r])
    assert outcome.tokens / outcome.seconds == pytest.approx(4 / filled.schedule.value, rel=0.03)
    assert outcome.busy[busiest] > 0.97
    assert outcome.occupied == pytest.approx(filled.sequences, rel=0.02)


def test_at_low_load_a_token_takes_as_long_as_the_latency_plan_says():
    plan = plan_decoder(DecoderRequest("gpt3-175b", zoo.platform("gpt3-6node")))
    service = service_of(plan, 64)
    outcome = play(service, [ServiceRequest(1000.0 * i, 64, 5) for i in range(3)], 3000.0)
    for served in outcome.served:
        assert served.each == pytest.approx(plan.schedule.value, rel=1e-9)
    assert outcome.chunks == 3
    # A chunk does 64 tokens' work at once: longer than one step, shorter than 64.
    assert plan.schedule.value < outcome.served[0].to_first < 64 * plan.schedule.value


def test_the_same_seed_gives_the_same_simulation(filled: DecoderPlan):
    service = service_of(filled, 128)
    lengths = parse_lengths("lognormal:100:0.5"), parse_lengths("uniform:1:20")
    runs = [play(service, poisson(0.5, 60.0, *lengths, seed), 60.0) for seed in (1, 1, 2)]
    assert times(runs[0]) == times(runs[1]) != times(runs[2])
    assert runs[0].busy == runs[1].busy


def test_chunks_go_where_the_slot_s_caches_are():
    """A plan that divides the batch by devices: each slot's chunks on the device of its element."""
    problem = zoo.problem("gpt2-small", "diviml:2", Objective("throughput", 2), layers=2)
    from tvm_hetero.solvers import solve

    schedule = solve(problem, "elements", Options(time_limit=1.0, deadline=60.0))
    wish = DecoderRequest("gpt2-small", zoo.platform("diviml:2"), "throughput", 2, 1, {"layers": 2})
    plan = DecoderPlan(wish, problem, schedule, 1, 1.0, schedule.value)
    service = service_of(plan, 16)
    homes = [{d for leg in route.legs for _, d in leg.runs} for route in service.chunks]
    for slot, devices in enumerate(homes):
        assert devices == {e.device for e in schedule.executions if slot in e.elements}


def test_refusals(filled: DecoderPlan):
    service = Service(line([flat(1.0)], 1), 1, 1)
    with pytest.raises(UsageError, match="no request arrives"):
        play(service, [], 10.0)
    with pytest.raises(UsageError, match="warm-up"):
        play(service, [ServiceRequest(0, 1, 1)], 10.0, 10.0)
    with pytest.raises(UsageError, match="expected 1 to 256"):
        service_of(filled, 4096)
