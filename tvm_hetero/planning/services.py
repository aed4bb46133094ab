"""Services made of plans: of a decoder of the zoo, or of a folder with a decoder of our own.

A plan of the zoo has one problem, the step; a chunk is the same network with more tokens, each task
where the step has it. Of a folder (``decoder.json``, ``step/``, ``prefill/``: what
``tvm-hetero partition`` makes of a decoder) both problems and both schedules are taken as they
stand, with the costs that were measured.
"""

from __future__ import annotations

from pathlib import Path

from tvm_hetero import zoo
from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.planning.decoder_plan import DecoderPlan, DecoderRequest, one_pass
from tvm_hetero.planning.route import Route, in_order, make_route, route_of
from tvm_hetero.planning.service import Service
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields

FORMAT = "tvm-hetero/decoder/1"
_FIGURES = ("length", "batch", "groups", "chunk")


def context_of(request: DecoderRequest) -> int:
    """Tokens in every cache of a request."""
    default = zoo.describe(request.model).parameters["context"]
    return int(request.parameters.get("context", default))


def service_of(plan: DecoderPlan, chunk: int = 256, *, padded: bool = False) -> Service:
    """A service on a plan of the zoo; `chunk` 1 lets prompts go in by steps.

    Raises
    ------
    UsageError
        If the chunk is larger than the caches, or not above 0.
    """
    context = context_of(plan.wish)
    if not 1 <= chunk <= max(1, context):
        raise UsageError(f"chunks of {chunk} tokens: expected 1 to {context}, the caches' length")
    step = route_of(plan.problem, plan.schedule)
    chunks = () if chunk == 1 else _chunks(plan, chunk)
    return Service(step, plan.in_flight, plan.wish.batch, chunk, chunks, padded)


def _chunks(plan: DecoderPlan, chunk: int) -> tuple[Route, ...]:
    """The route of a chunk for every slot; slots with the same devices share one."""
    request = plan.wish
    parameters = dict(request.parameters) | {"tokens": chunk}
    problem = zoo.problem(request.model, request.platform, Objective("latency", 1), **parameters)
    known: dict[tuple[str, ...], Route] = {}
    routes = []
    for slot in range(request.batch):
        homes = {e.task: e.device for e in plan.schedule.executions if slot in e.elements}
        key = tuple(homes[task.id] for task in problem.tasks)
        if key not in known:
            steps = [(task.id, homes[task.id], (0,)) for task in problem.tasks]
            known[key] = make_route(problem, in_order(problem, steps))
        routes.append(known[key])
    return tuple(routes)


def adopt_schedule(request: DecoderRequest, schedule: Schedule) -> DecoderPlan:
    """A plan that was made before, of the same request.

    Raises
    ------
    UsageError
        If the schedule answers another problem.
    """
    from tvm_hetero.problem.objective import loads

    in_flight = request.in_flight or 1
    problem = request.problem(in_flight)
    if schedule.problem != problem.digest:
        raise UsageError(
            f"the schedule answers another problem ({schedule.problem[:12]}..., this one is "
            f"{problem.digest[:12]}...); give the options that it was planned with, --in-flight "
            "too"
        )
    busy = loads(problem, schedule.executions, schedule.copies)
    return DecoderPlan(
        request, problem, schedule, in_flight, one_pass(problem, schedule), max(busy.values())
    )


def folder_service(folder: Path, *, padded: bool = True) -> tuple[Service, int]:
    """A service on a folder with a decoder, and the length of its caches.

    Raises
    ------
    FormatError
        If a file is missing or malformed.
    """
    described = _described(folder)
    step = _route(folder / "step")
    batch, chunk = described["batch"], described["chunk"]
    if step.problem.batch != batch:
        raise FormatError(
            f"{folder}: decoder.json says a batch of {batch}, step/problem.json one of "
            f"{step.problem.batch}; build it again"
        )
    chunks = () if chunk == 1 else (_route(folder / "prefill"),) * batch
    service = Service(step, described["groups"], batch, chunk, chunks, padded)
    return service, described["length"]


def _described(folder: Path) -> dict[str, int]:
    where = f"{folder}/decoder.json"
    document = read_document(folder / "decoder.json")
    check_format(document, FORMAT, where)
    row = Fields(document, where, _FIGURES, None)  # what else it says is the decoder's
    return {key: row.integer(key, least=1) for key in _FIGURES}


def _route(folder: Path) -> Route:
    problem = Problem.load(folder / "problem.json")
    schedule = Schedule.load(folder / "schedule.json")
    if schedule.problem != problem.digest:
        raise FormatError(f"{folder}: schedule.json does not answer problem.json; build it again")
    return route_of(problem, schedule)
