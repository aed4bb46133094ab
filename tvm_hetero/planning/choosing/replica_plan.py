"""What one replica does: a plan of a variant on a machine for batches of up to B, and its times.

A batch goes through a network as one: each task runs once for all of its elements. So the plan for
batches of B is that of one element that is B times as large (`merge_batch`), whose latency a solver
minimises with a bound beside it; the same placement takes L(n) for n <= B elements, and the replica
serves by the rules of `tvm_hetero.planning.service` with one group of B slots. A decoder's replica
is what `tvm_hetero.planning.decoding` plans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.planning.choosing.request import MachineOffer, ModelVariant
from tvm_hetero.planning.clock import Clock
from tvm_hetero.planning.route import Route, in_order, make_route
from tvm_hetero.planning.service import Service
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import Resource
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.util.quote import quote
from tvm_hetero.zoo.costs import make_problem
from tvm_hetero.zoo.experts import mixture
from tvm_hetero.zoo.language import decoder
from tvm_hetero.zoo.work_graph import HALF, SINGLE, WorkGraph

_WIDTHS = {"float32": SINGLE, "float16": HALF}


@dataclass(frozen=True)
class ReplicaOption:
    """A variant on a machine, planned for batches of up to `batch`.

    Attributes
    ----------
    service : the plan, as the simulator takes it.
    plan : the schedule with value, bound and gap.
    seconds : L(n) of n = 0 ... `batch` elements; empty for a decoder.
    joules : above idling, of such a batch; empty for a decoder, or where watts are not known.
    context : tokens of a decoder's caches; 0 of a network.
    way : how a decoder's layers lie, where it is planned in several ways.
    """

    variant: ModelVariant
    machine: MachineOffer
    batch: int
    service: Service
    plan: Schedule
    seconds: tuple[float, ...] = ()
    joules: tuple[float, ...] = ()
    context: int = 0
    way: str = ""

    @property
    def name(self) -> str:
        """``resnet50 on t4, batches of 16``, or ``..., 5 in flight in stages``."""
        flight = f", {self.service.groups} in flight {self.way}".rstrip() if self.context else ""
        return f"{self.variant.name} on {self.machine.label}, batches of {self.batch}{flight}"

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that the plan uses, in the platform's order."""
        used = {each.device for each in self.plan.executions}
        return tuple(name for name in self.machine.platform.names if name in used)


def is_decoder(variant: ModelVariant) -> bool:
    """Whether a variant makes tokens."""
    return bool(variant.model) and zoo.describe(variant.model).make in (decoder, mixture)


def plan_replica(
    variant: ModelVariant, machine: MachineOffer, batch: int, options: Options
) -> ReplicaOption:
    """Plan a replica of a network (decoders: `tvm_hetero.planning.choosing.decoder_ways`).

    Raises
    ------
    UsageError
        If the variant cannot be planned for: a precision that the zoo has no figures of, measured
        costs that lack this machine, or a parameter that its network lacks.
    InfeasibleError
        If it does not fit into the machine's memories.
    SolverError
        If no plan was found in the time.
    """
    problem = problem_of(variant, machine, batch)
    plan = solve(merge_batch(problem, batch), "auto", options)
    route = batch_route(problem, plan)
    passes = [pass_route(route, n) for n in range(batch + 1)]
    known = idle_watts(machine) is not None
    return ReplicaOption(
        variant, machine, batch, Service(route, 1, batch), plan,
        seconds=tuple(each.now for each in passes),
        joules=tuple(joules_above_idle(machine, p.busy, p.now) for p in passes) if known else (),
    )  # fmt: skip


def problem_of(variant: ModelVariant, machine: MachineOffer, batch: int) -> Problem:
    """The problem of a network's batch on a machine: measured costs, or the zoo's roofline."""
    goal = Objective("latency", batch)
    if variant.problems:
        if machine.name not in variant.problems:
            raise UsageError(
                f"variant {variant.name!r} has no problem for machine {machine.name!r}; add one, "
                "or take the machine away"
            )
        return on_machine(variant.problems[machine.name], machine, goal)
    graph = zoo.work_graph(variant.model, **variant.parameters)
    return make_problem(at_precision(graph, variant), machine.platform, goal)


def on_machine(problem: Problem, machine: MachineOffer, goal: Objective) -> Problem:
    """A problem with measured costs on the platform of a machine, by the devices' names.

    The machine may be a part of what was measured. What it lacks does not count, nor do the links
    that the problem had.

    Raises
    ------
    UsageError
        If a task has costs on none of the machine's devices, or an energy of its own.
    """
    if problem.has_energies:
        raise UsageError(
            f"machine {machine.name!r}: tasks of problem {quote(problem.name)} have an energy of "
            "their own, and machines are chosen by their watts; leave 'energy' out"
        )
    names = machine.platform.names
    costs = {
        task: {name: cost for name, cost in row.items() if name in names}
        for task, row in problem.costs.items()
    }
    for task, row in costs.items():
        if not row:
            raise UsageError(
                f"machine {machine.name!r}: no device of it ({', '.join(names)}) can run task "
                f"{quote(task)} of problem {quote(problem.name)}, which has costs on "
                f"{', '.join(problem.costs[task])}; give the machine such a device, or a problem "
                "that was measured on it"
            )
    return Problem(problem.graph, costs, machine.platform, goal, problem.name)


def at_precision(graph: WorkGraph, variant: ModelVariant) -> WorkGraph:
    """A network with all numbers in a variant's precision: half as wide, half the bytes.

    Raises
    ------
    UsageError
        If the zoo cannot say what that costs.
    """
    width = _WIDTHS.get(variant.precision)
    if width is None or width > graph.width:
        raise UsageError(
            f"variant {variant.name!r}: {variant.model} in {variant.precision} has no costs in the "
            "zoo; give 'problems' with measured ones"
        )
    if width == graph.width:
        return graph
    works = tuple(
        replace(w, traffic=w.traffic // 2, weights=w.weights // 2, cache=w.cache // 2,
                output=w.output // 2)
        for w in graph.works
    )  # fmt: skip
    edges = tuple(replace(edge, bytes=edge.bytes // 2) for edge in graph.edges)
    return replace(graph, works=works, edges=edges, width=width)


def merge_batch(problem: Problem, batch: int) -> Problem:
    """The problem whose one element is a batch that is never divided."""
    tasks = [
        replace(
            t, output_bytes=t.output_bytes * batch, flops=t.flops * batch, bytes=t.bytes * batch
        )
        for t in problem.tasks
    ]
    edges = [replace(edge, bytes=edge.bytes * batch) for edge in problem.graph.edges]
    costs: Mapping[str, Mapping[str, Cost]] = {
        task: {name: Cost(((1, cost.seconds(batch)),)) for name, cost in row.items()}
        for task, row in problem.costs.items()
    }
    name = f"{problem.name}, batches of {batch}"
    graph = TaskGraph(tasks, edges)
    return Problem(graph, costs, problem.platform, Objective("latency", 1), name)


def batch_route(problem: Problem, plan: Schedule) -> Route:
    """The way of a batch of `problem`, every task where the plan of the merged batch has it."""
    every = tuple(range(problem.batch))
    homes = {each.task: each.device for each in plan.executions}
    steps = [(task.id, homes[task.id], every) for task in problem.tasks if task.id in homes]
    return make_route(problem, in_order(problem, steps))


def pass_route(route: Route, count: int) -> Clock:
    """The clock after `count` elements went through a route alone: seconds, and who was busy."""
    clock = Clock(route.resources)
    if count:
        clock.send(route, range(count), lambda: None)
        clock.run()
    return clock


def joules_above_idle(
    machine: MachineOffer, busy: Mapping[Resource, float], working: float
) -> float:
    """What is drawn above idling: by the whole machine while it is working, or by each device.

    NaN where watts are not known. Links draw nothing.
    """
    if machine.busy_watts is not None and machine.idle_watts is not None:
        return (machine.busy_watts - machine.idle_watts) * working
    if idle_watts(machine) is None:
        return math.nan
    devices = machine.platform.devices
    return math.fsum(((d.watts or 0.0) - d.idle_watts) * busy.get(d.name, 0.0) for d in devices)


def idle_watts(machine: MachineOffer) -> float | None:
    """What a machine draws while it idles; None where some device has no figures."""
    if machine.idle_watts is not None:
        return machine.idle_watts
    if any(device.watts is None for device in machine.platform.devices):
        return None
    return math.fsum(device.idle_watts for device in machine.platform.devices)


def price_of(machine: MachineOffer) -> float | None:
    """Of one machine, an hour; None where some device has no price."""
    if machine.price is not None:
        return machine.price
    prices = [device.price for device in machine.platform.devices]
    known = [price for price in prices if price is not None]
    return math.fsum(known) if len(known) == len(prices) else None
