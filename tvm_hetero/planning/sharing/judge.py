"""The judge of a day: every rule of `problem` once more, by walking through the plan.

It shares nothing with the program: it reads a plan as a reader would, hour by hour and machine by
machine, and adds up what is paid.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_hetero.errors import SolverFault
from tvm_hetero.planning.sharing.problem import DayPlan, MachineHour, SharingPolicy, SharingProblem


def judge(problem: SharingProblem, plan: DayPlan, policy: SharingPolicy | None = None) -> int:
    """What a plan costs a day, in millionths.

    Raises
    ------
    SolverFault
        If it breaks a rule of the problem or the policy; says which one, first.
    """
    policy = policy or SharingPolicy()
    if len(plan) != len(problem.need):
        raise SolverFault(f"sharing: {len(plan)} hours of {len(problem.need)} are planned")
    for t, hour in enumerate(plan):
        _refuse(t, _hour_faults(problem, hour, policy))
    for t, hour in enumerate(plan):
        before = plan[t - 1]  # the day comes again
        _refuse(t, _memory_faults(problem, before, hour))
        _refuse(t, _served_faults(problem, t, hour))
        if not policy.moving and _standing(hour) != _standing(before):
            _refuse(t, iter(("something has moved, which this policy does not",)))
    return sum(_paid(problem, plan[t - 1], hour) for t, hour in enumerate(plan))


def _refuse(t: int, faults: Iterator[str]) -> None:
    for fault in faults:
        raise SolverFault(f"sharing: hour {t}: {fault}")


def _hour_faults(
    problem: SharingProblem, hour: tuple[MachineHour, ...], policy: SharingPolicy
) -> Iterator[str]:
    """Each machine is there once, in a mode of its own that its models may live in."""
    machines = problem.machines
    named = [each.machine for each in hour]
    if len(set(named)) < len(named) or not set(named) <= set(range(len(machines))):
        yield f"machines {named} are not each one of {len(machines)}, once"
        return
    for each in hour:
        name = problem.machine_name(each.machine)
        modes = problem.kinds[machines[each.machine]].modes
        if not 0 <= each.mode < len(modes):
            yield f"{name} is in mode {each.mode} of {len(modes)}"
            continue
        mode = modes[each.mode]
        if len(each.parts) > 1 and (mode.alone or not policy.shared):
            yield f"{name} has {len(each.parts)} models and is for one"
        if any(parts < 0 for parts in each.parts.values()):
            yield f"{name} gives less than no time"
        if sum(each.parts.values()) > problem.parts:
            yield f"{name} gives {sum(each.parts.values())} parts of {problem.parts}"
        for i in each.parts:
            if not 0 <= i < len(problem.models) or not mode.carries[i]:
                yield f"model {i} may not live on {name} in mode {mode.name}"


def _memory_faults(
    problem: SharingProblem, before: tuple[MachineHour, ...], hour: tuple[MachineHour, ...]
) -> Iterator[str]:
    """Who lives there fits, beside whom it comes after; a copy with the larger of its two plans."""
    homes: dict[int, dict[tuple[int, int], list[int]]] = {}
    for each in (*before, *hour):
        mode = problem.kinds[problem.machines[each.machine]].modes[each.mode]
        for i, h in _copies(problem, each):
            homes.setdefault(each.machine, {}).setdefault((i, h), []).append(mode.plan(i))
    for machine, copies in sorted(homes.items()):
        kind = problem.kinds[problem.machines[machine]]
        for d, room in enumerate(kind.rooms):
            if room is None:
                continue
            needed = sum(
                max(kind.sizes[i][p][d] for p in plans) for (i, _), plans in copies.items()
            )
            if needed > room:
                name = problem.machine_name(machine)
                yield f"{name} has room for {room} bytes, and {needed} bytes live there"


def _served_faults(problem: SharingProblem, t: int, hour: tuple[MachineHour, ...]) -> Iterator[str]:
    """Every model is answered as often as it is asked."""
    for i, name in enumerate(problem.models):
        answered = 0
        for each in hour:
            mode = problem.kinds[problem.machines[each.machine]].modes[each.mode]
            answered += mode.carries[i] * each.parts.get(i, 0)
        if answered < problem.need[t][i] * problem.parts:
            asked = problem.need[t][i]
            yield f"{name!r} is answered {answered / problem.parts:g} times of {asked}"


def _standing(hour: tuple[MachineHour, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Machines, modes and models of an hour, whatever time each gets."""
    return sorted((each.machine, each.mode, tuple(sorted(each.parts))) for each in hour)


def _paid(
    problem: SharingProblem, before: tuple[MachineHour, ...], hour: tuple[MachineHour, ...]
) -> int:
    """The price of an hour: machines, starts, and loads of copies that were not there."""
    was = {each.machine: _copies(problem, each) for each in before}
    total = 0
    for each in hour:
        kind = problem.kinds[problem.machines[each.machine]]
        total += kind.price
        if each.machine not in was:
            total += kind.start
        came = _copies(problem, each) - was.get(each.machine, set())
        total += sum(kind.loads[i] for i, _ in came)
    return total


def _copies(problem: SharingProblem, each: MachineHour) -> set[tuple[int, int]]:
    """The copies of weights that are on a machine: of every model that lives there one."""
    kind = problem.kinds[problem.machines[each.machine]]
    return {(i, kind.copy(i, kind.modes[each.mode].plan(i))) for i in each.parts}
