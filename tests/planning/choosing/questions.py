"""Small questions: networks of one task on machines of one device, planned once."""

from __future__ import annotations

import random
from functools import cache

from tvm_hetero.planning.choosing.arrivals import Bursts, draw_requests
from tvm_hetero.planning.choosing.find_choice import RatedRequest
from tvm_hetero.planning.choosing.options import plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import (
    ChoiceRequest,
    MachineOffer,
    ModelVariant,
    RequestClass,
    SloLimit,
    SpendingLimit,
)
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.solvers import Options

# Seconds of 1 and 4 elements, by variant and machine.
TIMES = {
    ("large", "slow"): (0.040, 0.100),
    ("large", "fast"): (0.012, 0.022),
    ("small", "slow"): (0.015, 0.045),
    ("small", "fast"): (0.006, 0.012),
}
ACCURACY = {"large": 76.0, "small": 70.0}
PRICE = {"slow": 1.0, "fast": 3.5}
WATTS = {"slow": (10.0, 60.0), "fast": (50.0, 300.0)}


def offer(name: str, available: int = 3) -> MachineOffer:
    idle, busy = WATTS[name]
    device = Device("d", watts=busy, idle_watts=idle, price=PRICE[name])
    return MachineOffer(name, Platform((device,)), available)


def variant(name: str) -> ModelVariant:
    problems = {
        machine: Problem(
            TaskGraph([Task("t")], []),
            {"t": {"d": Cost(((1, one), (4, four)))}},
            offer(machine).platform,
            Objective(),
        )
        for (own, machine), (one, four) in TIMES.items()
        if own == name
    }
    return ModelVariant(name, ACCURACY[name], problems=problems)


def question(
    classes: tuple[RequestClass, ...],
    goal: str = "price",
    available: tuple[int, int] = (3, 3),
    budget: SpendingLimit = SpendingLimit(),
    seconds: float = 4.0,
) -> ChoiceRequest:
    machines = tuple(offer(name, n) for name, n in zip(PRICE, available, strict=True))
    variants = tuple(variant(name) for name in ACCURACY)
    return ChoiceRequest(
        variants, machines, classes, goal, budget, seconds, batches=(1, 4), name="small"
    )


def load(
    name: str, rate: float, p99: float, accuracy: float = 0.0, seconds: float = 4.0, seed: int = 0
) -> RequestClass:
    bursts = Bursts(3.0, 2.0, 0.3) if seed % 2 else None
    requests = draw_requests(rate, seconds, bursts, seed=seed)
    return RequestClass(name, requests, (SloLimit("latency", 99, p99),), accuracy)


@cache
def planned() -> tuple[ReplicaOption, ...]:
    """All plans; no load changes them."""
    return plan_options(question((load("a", 1.0, 1.0),)), Options(0.1, deadline=60.0))


def rated(request: ChoiceRequest) -> RatedRequest:
    """As the answer does it, with the plans that are there."""
    machines = {each.name: each for each in request.machines}
    options = tuple(
        ReplicaOption(o.variant, machines[o.machine.name], o.batch, o.service, o.plan, o.seconds,
                      o.joules)
        for o in planned()
    )  # fmt: skip
    kept, cut = rate_options(request, options)
    return RatedRequest(
        request, options, kept, cut, ChoicePlayer(request), Options(5.0, deadline=600.0)
    )


def random_question(seed: int) -> ChoiceRequest:
    draw = random.Random(seed)
    classes = tuple(
        load(
            f"k{k}",
            draw.uniform(20, 150),
            draw.choice([0.03, 0.06, 0.12, 0.3]),
            draw.choice([0.0, 70.0, 76.0]),
            seed=1000 * seed + k,
        )
        for k in range(draw.choice([1, 2, 2]))
    )
    goal = draw.choice(["price", "price", "energy", "accuracy"])
    budget = SpendingLimit()
    if goal == "accuracy" or draw.random() < 0.3:
        budget = SpendingLimit(price=draw.uniform(3, 14))
    return question(classes, goal, (draw.randint(1, 4), draw.randint(1, 3)), budget)
