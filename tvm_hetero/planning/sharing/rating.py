"""What each model takes of each machine in each mode: the problem's figures, from plans.

A model on a machine is planned for every batch of the question, as `tvm_hetero.planning.choosing`
does it, and rated by `rate_curve`: the largest rate of Poisson arrivals of which a machine that
does nothing else keeps every limit of the SLO, in a simulation. In a mode with a quantum q the
batches that take longer than q are left out, and the SLO is shorter by q. Of the batches that are
left the one that carries most is the mode's, and memory is counted for it. Plans of one model that
have its weights on the same devices run on one copy of them; another mode whose plan has them
elsewhere means another copy, which is loaded as any other is.

Quanta that are tried are halves and quarters of SLOs. A mode is dropped where whatever is done in
it can be done in another one of the same kind                      -> `dominance.needed_modes`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing.format import several_levels
from tvm_hetero.planning.choosing.replica_plan import (
    ReplicaOption,
    is_decoder,
    merge_batch,
    plan_replica,
    price_of,
    problem_of,
)
from tvm_hetero.planning.sharing.dominance import needed_modes
from tvm_hetero.planning.sharing.problem import (
    ALONE,
    MONEY,
    RATE,
    MachineMode,
    SharedKind,
    SharingProblem,
)
from tvm_hetero.planning.sharing.rate_curve import RateCurve, draw_streams
from tvm_hetero.planning.sharing.request import SharedMachine, SharingRequest
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.deadline import Deadline, check_left
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import format_seconds

# Hours x machines x models x modes of a question at most: what a program has room for.
MOST_SIZE = 200_000
# Of SLOs the parts that are tried as quanta.
_QUANTA = (0.25, 0.5)
_HOUR = 3600.0
# Batches that take less were not measured; what is carried has to stay far below 2^63.
_LEAST_BATCH = 1e-6
# Plans of a model on a machine, by batch.
_Plans = Mapping[tuple[int, int], tuple[ReplicaOption, ...]]
_Curves = Mapping[tuple[int, int], tuple[RateCurve, ...]]
# A mode, and by model what is carried in it and by which plan.
_RatedMode = tuple[MachineMode, Mapping[int, tuple[int, ReplicaOption]]]


@dataclass(frozen=True)
class RatedSharing:
    """A question with its problem; `used[m, g, i]` is the plan by which i runs there."""

    request: SharingRequest
    problem: SharingProblem
    used: Mapping[tuple[int, int, int], ReplicaOption]


def rate_sharing(
    request: SharingRequest,
    plan: Options,
    tell: Callable[[str], None] | None = None,
    ends: Deadline | None = None,
) -> RatedSharing:
    """Plan and rate everything.

    Raises
    ------
    UsageError
        If a machine has no price, a model makes tokens, or a batch takes no time.
    InfeasibleError
        If some model fits on no machine within its SLO, even alone.
    SolverError
        If `ends` has passed.
    """
    _check(request)
    plans = _plan_all(request, plan, tell, ends)
    curves = _draw_curves(request, plans)
    kinds, used = [], dict[tuple[int, int, int], ReplicaOption]()
    for m, machine in enumerate(request.machines):
        if tell is not None:
            tell(f"rating {machine.offer.name}")
        modes: list[_RatedMode] = []
        for quantum in (None, *quanta(request)):
            found = _rate_mode(request, m, quantum, curves, ends)
            carries = tuple(found[i][0] if i in found else 0 for i in range(len(request.models)))
            name = ALONE if quantum is None else format_seconds(quantum)
            modes.append((MachineMode(name, carries, quantum is None), found))
        kind = _kind(request, m, machine, plans, modes)
        kept = needed_modes(kind)
        for g, (_, rated) in enumerate(modes[k] for k in kept):
            used |= {(m, g, i): option for i, (_, option) in rated.items()}
        kinds.append(replace(kind, modes=tuple(kind.modes[k] for k in kept)))
    problem = SharingProblem(
        tuple(model.name for model in request.models), tuple(kinds), needs(request)
    )
    for i, name in enumerate(problem.models):
        if not any(mode.carries[i] for kind in kinds for mode in kind.modes):
            raise InfeasibleError(
                f"model {name!r}: no machine keeps its SLO, even alone; relax it, or offer faster "
                "machines",
                proven=True,
            )
    return RatedSharing(request, problem, used)


def needs(request: SharingRequest) -> tuple[tuple[int, ...], ...]:
    """need[t][i], rounded up."""
    return tuple(
        tuple(math.ceil(round(model.rates[t] * RATE, 6)) for model in request.models)
        for t in range(request.hours)
    )


def quanta(request: SharingRequest) -> list[float]:
    """The quanta that are tried (see the head of this file), s."""
    limits = {model.patience for model in request.models}
    return sorted({part * seconds for part in _QUANTA for seconds in limits})


def _check(request: SharingRequest) -> None:
    count = sum(machine.offer.available for machine in request.machines)
    size = request.hours * count * len(request.models) * (1 + len(quanta(request)))
    if size > MOST_SIZE:
        raise UsageError(
            f"{request.hours} hours, {count} machines, {len(request.models)} models and "
            f"{1 + len(quanta(request))} modes of sharing are {size} parts of time to be decided; "
            f"expected at most {MOST_SIZE}: ask for fewer machines or hours, or like SLOs"
        )
    for machine in request.machines:
        if price_of(machine.offer) is None:
            raise UsageError(f"machine {machine.offer.name!r} has no price; give 'price', an hour")
        for name in several_levels(machine.offer.platform):
            raise UsageError(
                f"machine {machine.offer.name!r}: {quote(name)} has frequency levels, and nothing "
                "is gained by a lower one where prices count; name one of them in 'devices'"
            )
    for model in request.models:
        if is_decoder(model.network):
            raise UsageError(
                f"model {model.name!r} makes tokens, and only networks share machines here; see "
                "docs/decoders.md"
            )


def _plan_all(
    request: SharingRequest,
    plan: Options,
    tell: Callable[[str], None] | None,
    ends: Deadline | None,
) -> _Plans:
    found = {}
    for m, machine in enumerate(request.machines):
        for i, model in enumerate(request.models):
            if tell is not None:
                tell(f"{model.name} on {machine.offer.name}")
            options = []
            for batch in request.batches:
                check_left(ends, "share", f"before {model.name} is planned")
                try:
                    option = plan_replica(model.network, machine.offer, batch, plan)
                except InfeasibleError:
                    continue  # too large for its memories
                if min(option.seconds[1:]) < _LEAST_BATCH:
                    raise UsageError(
                        f"model {model.name!r} on machine {machine.offer.name!r}: a batch "
                        f"takes {min(option.seconds[1:]):g} s; expected at least {_LEAST_BATCH:g} s"
                    )
                options.append(option)
            found[m, i] = tuple(options)
    return found


def _draw_curves(request: SharingRequest, plans: _Plans) -> _Curves:
    streams = [draw_streams(model.name, request.seed) for model in request.models]
    return {
        (m, i): tuple(RateCurve(each, request.models[i], streams[i]) for each in options)
        for (m, i), options in plans.items()
    }


def _rate_mode(
    request: SharingRequest, m: int, quantum: float | None, curves: _Curves, ends: Deadline | None
) -> dict[int, tuple[int, ReplicaOption]]:
    """By model what a machine of kind m carries in a mode (parts of `RATE`), and by which plan."""
    found = dict[int, tuple[int, ReplicaOption]]()
    for i, model in enumerate(request.models):
        best: tuple[int, ReplicaOption] | None = None
        for curve in curves[m, i]:
            if quantum is None or max(curve.option.seconds) <= quantum:
                check_left(ends, "share", f"while {model.name} is rated")
                least = best[0] if best else 0
                rate = curve.carried(quantum or 0.0, least)
                if rate > least:
                    best = rate, curve.option
        if best is not None:
            found[i] = best
    return found


def _kind(
    request: SharingRequest,
    m: int,
    machine: SharedMachine,
    plans: _Plans,
    modes: Sequence[_RatedMode],
) -> SharedKind:
    """Prices, memories and what the plans of each model need of them."""
    price = price_of(machine.offer)
    assert price is not None, "`_check` has seen to it"
    devices = machine.offer.platform.devices
    used = [_used(modes, i) for i in range(len(request.models))]
    return SharedKind(
        machine.offer.name,
        machine.offer.available,
        math.ceil(round(price * MONEY, 3)),
        tuple(_numbered(mode, rated, used) for mode, rated in modes),
        _paid(price, machine.start),
        tuple(
            _paid(price, _load_seconds(machine, model.name, plans[m, i]))
            for i, model in enumerate(request.models)
        ),
        tuple(d.memory for d in devices),
        tuple(tuple(sizes_of(option, devices) for option in own) for own in used),
        tuple(copies_of(own) for own in used),
    )


def _used(modes: Sequence[_RatedMode], i: int) -> list[ReplicaOption]:
    """The plans by which a model runs in any mode."""
    found: list[ReplicaOption] = []
    for _, rated in modes:
        if i in rated and rated[i][1] not in found:
            found.append(rated[i][1])
    return found


def _numbered(
    mode: MachineMode,
    rated: Mapping[int, tuple[int, ReplicaOption]],
    used: Sequence[list[ReplicaOption]],
) -> MachineMode:
    """A mode that says by which of a model's plans it runs; of who may not live there 0."""
    plans = (own.index(rated[i][1]) if i in rated else 0 for i, own in enumerate(used))
    return replace(mode, plans=tuple(plans))


def _load_seconds(machine: SharedMachine, name: str, plans: Sequence[ReplicaOption]) -> float:
    """How long a model's weights come onto a machine."""
    weights = max((_weight_bytes(option) for option in plans), default=0)
    seconds = weights / machine.loading
    if machine.start + seconds > _HOUR:
        raise UsageError(
            f"machine {machine.offer.name!r}: to start and to load {name!r} takes "
            f"{machine.start + seconds:g} s ({weights} bytes at {machine.loading:g} a second); "
            "expected at most an hour"
        )
    return seconds


def _paid(price: float, seconds: float) -> int:
    """What a machine costs in so many seconds."""
    return math.ceil(round(price * MONEY * seconds / _HOUR, 3))


def sizes_of(option: ReplicaOption, devices: Sequence[Device]) -> tuple[int, ...]:
    """Bytes on each device while a full batch goes through: weights and what lies between tasks."""
    problem = merge_batch(problem_of(option.variant, option.machine, option.batch), option.batch)
    peaks = memory_peaks(problem, option.plan.executions, option.plan.copies)
    return tuple(peaks[device.name] for device in devices)


def copies_of(plans: Sequence[ReplicaOption]) -> tuple[int, ...]:
    """h(p): plans that have all weights on the same devices have the same number."""
    places: list[frozenset[tuple[str, str]]] = []
    found = []
    for option in plans:
        problem = problem_of(option.variant, option.machine, option.batch)
        heavy = {task.id for task in problem.tasks if task.weight_bytes}
        place = frozenset((e.task, e.device) for e in option.plan.executions if e.task in heavy)
        if place not in places:
            places.append(place)
        found.append(places.index(place))
    return tuple(found)


def _weight_bytes(option: ReplicaOption) -> int:
    problem = problem_of(option.variant, option.machine, option.batch)
    return sum(task.weight_bytes for task in problem.tasks)
