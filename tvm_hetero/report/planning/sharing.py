"""A shared day, for a reader: what lives where and when, what moves, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tvm_hetero.planning.sharing.answer import PlayedDay, SharingAnswer, answered_rate
from tvm_hetero.planning.sharing.problem import DayPlan, MachineHour, SharingProblem
from tvm_hetero.planning.sharing.replay import PlayedModel
from tvm_hetero.util.text_tables import format_table
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable_lines

POLICY = ("policy", "price of the day", "bound of this policy", "gap", "hardest SLO")
STANDING = ("hours", "machine", "quantum", "lives there, and part of the time it gets")
PLAYED = ("model", "limit", "SLO", "simulated in its hardest hour", "hour")


def sharing_text(answer: SharingAnswer) -> str:
    """Who lives where, the policies beside each other, the simulation, and what moves.

    Names are of whoever wrote the question: nothing of them but what can be shown is.
    """
    return "\n\n".join(
        [
            format_table(STANDING, standing_rows(answer, answer.day)),
            printable_lines(move_lines(answer, answer.day)),
            format_table(PLAYED, played_rows(answer, answer.day)),
            format_table(POLICY, policy_rows(answer)),
            printable_lines(note_lines(answer)),
        ]
    )


def policy_rows(answer: SharingAnswer) -> list[list[str]]:
    """What the day costs by each policy."""
    return [
        [
            name,
            f"{day.price:.5g}",
            f"{day.bound:.5g}",
            f"{100 * day.gap:.2g} %",
            f"{100 * day.strain:.0f} %",
        ]
        for name, day in answer.days.items()
    ]


def standing_rows(answer: SharingAnswer, day: PlayedDay) -> list[list[str]]:
    """Each machine while the same models live on it; time is that of its fullest hour."""
    problem, rows = answer.case.problem, []
    for j, m in enumerate(problem.machines):
        for begin, end in stretches(day.plan, j):
            hours = [each for t in range(begin, end) if (each := machine_hour(day.plan, t, j))]
            fullest = max(hours, key=lambda each: sum(each.parts.values()))
            mode = problem.kinds[m].modes[hours[0].mode]
            rows.append(
                [
                    hours_words(begin, end),
                    problem.machine_name(j),
                    mode.name,
                    lives_words(answer, fullest),
                ]
            )
    return rows


def lives_words(answer: SharingAnswer, hour: MachineHour) -> str:
    """``photos 40 %, tags 12 %``."""
    problem = answer.case.problem
    return ", ".join(
        f"{problem.models[i]} {100 * parts / problem.parts:.3g} %"
        for i, parts in sorted(hour.parts.items())
    )


def machine_hour(plan: DayPlan, t: int, j: int) -> MachineHour | None:
    """What a machine does in an hour; None: it is off."""
    return next((each for each in plan[t] if each.machine == j), None)


def stretches(plan: DayPlan, j: int) -> Iterator[tuple[int, int]]:
    """Hours, from and until, in which one machine is on and the same models live on it."""
    begin = 0
    for t in range(len(plan) + 1):
        if t == len(plan) or (t > begin and _differ(plan, begin, t, j)):
            if machine_hour(plan, begin, j) is not None:
                yield begin, t
            begin = t


def _differ(plan: DayPlan, one: int, other: int, j: int) -> bool:
    """Whether a machine is not on in one of two hours, or other models live on it."""
    was, now = machine_hour(plan, one, j), machine_hour(plan, other, j)
    if was is None or now is None:
        return was is not now
    return (was.mode, set(was.parts)) != (now.mode, set(now.parts))


def hours_words(begin: int, end: int) -> str:
    """``8:00-12:00``."""
    return f"{begin}:00-{end}:00"


def move_lines(answer: SharingAnswer, day: PlayedDay) -> list[str]:
    """When a machine is started or stopped, and when a model is loaded or dropped."""
    problem, lines = answer.case.problem, []
    for t, hour in enumerate(day.plan):
        before = day.plan[t - 1]
        was = {each.machine: problem.copies(each) for each in before}
        now = {each.machine: problem.copies(each) for each in hour}
        words = []
        for j in sorted(was.keys() | now.keys()):
            name = problem.machine_name(j)
            if j not in now:
                words.append(f"{name} stops")
                continue
            if j not in was:
                words.append(f"{name} starts with {_names(problem, now[j])}")
            elif moved := list(_moved(problem, was[j], now[j])):
                words.append(f"{name} {' and '.join(moved)}")
        if words:
            lines.append(f"At {t}:00 {'; '.join(words)}.")
    return lines or ["Nothing moves all day."]


def _moved(
    problem: SharingProblem, was: Mapping[int, int], now: Mapping[int, int]
) -> Iterator[str]:
    """Who comes, who goes, and who stays with its weights in other places."""
    if came := now.keys() - was.keys():
        yield f"loads {_names(problem, came)}"
    if anew := [i for i in now.keys() & was.keys() if now[i] != was[i]]:
        yield f"loads {_names(problem, anew)} anew for another mode"
    if went := was.keys() - now.keys():
        yield f"drops {_names(problem, went)}"


def _names(problem: SharingProblem, models: Iterable[int]) -> str:
    return ", ".join(problem.models[i] for i in sorted(models))


def played_rows(answer: SharingAnswer, day: PlayedDay) -> list[list[str]]:
    """Each model's hardest hour by every limit."""
    rows = []
    for i, model in enumerate(answer.case.request.models):
        own = [each for each in day.played if each.model == i]
        for limit in model.slo:
            worst = max(own, key=lambda each: each.reached[limit])
            rows.append(
                [
                    model.name,
                    limit.name,
                    format_seconds(limit.seconds),
                    format_seconds(worst.reached[limit]),
                    f"{worst.hour}:00",
                ]
            )
    return rows


def note_lines(answer: SharingAnswer) -> list[str]:
    """What margins were needed, what few requests say, and which policies have no day."""
    day, problem = answer.day, answer.case.problem
    lines = [f"The answer: {day.policy}, {day.price:.5g} a day."]
    if day.margins:
        most = max(day.margins.values())
        lines.append(
            f"In {len(day.margins)} of {len(day.played)} pairs of an hour and a model room was "
            f"kept for up to {100 * most:.0f} % more: with less an SLO broke in the simulation."
        )
    few = min(day.played, key=lambda each: each.requests)
    late = few.requests * (100 - _strictest(few)) // 100
    if late < 10:
        lines.append(
            f"{problem.models[few.model]} had {few.requests} requests in the part of hour "
            f"{few.hour} that was played, few for its SLO: play more seconds ('play')."
        )
    lines += [f"{name}: {why}" for name, why in answer.refused.items()]
    return lines


def _strictest(played: PlayedModel) -> int:
    return max(limit.percentile for limit in played.reached)


def sharing_dict(answer: SharingAnswer) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "format": "tvm-hetero/sharing/1",
        "name": answer.case.request.name,
        "policy": answer.day.policy,
        "policies": {name: day_dict(answer, day) for name, day in answer.days.items()},
        "refused": dict(answer.refused),
        "seconds": answer.seconds,
    }


def day_dict(answer: SharingAnswer, day: PlayedDay) -> dict[str, Any]:
    """A day as JSON: its price and bound, and what every machine does in each hour."""
    return {
        "price": day.price,
        "bound": day.bound,
        "gap": day.gap,
        "moves": [] if len(day.plan) == 1 else move_lines(answer, day),
        "hours": [
            {
                "machines": [_machine_dict(answer, t, each) for each in hour],
                "models": [
                    _played_dict(answer, day, each) for each in day.played if each.hour == t
                ],
            }
            for t, hour in enumerate(day.plan)
        ],
    }


def _machine_dict(answer: SharingAnswer, t: int, each: MachineHour) -> dict[str, Any]:
    problem = answer.case.problem
    m = problem.machines[each.machine]
    return {
        "machine": problem.machine_name(each.machine),
        "mode": problem.kinds[m].modes[each.mode].name,
        "models": [
            {
                "model": problem.models[i],
                "time": parts / problem.parts,
                "batch": answer.case.used[m, each.mode, i].batch,
            }
            for i, parts in sorted(each.parts.items())
        ],
    }


def _played_dict(answer: SharingAnswer, day: PlayedDay, each: PlayedModel) -> dict[str, Any]:
    model = answer.case.request.models[each.model]
    return {
        "model": model.name,
        "rate": model.rates[each.hour],
        "carried": answered_rate(answer.case, each.hour, each.model, day),
        "requests": each.requests,
        "margin": day.margins.get((each.hour, each.model), 0.0),
        "slo": [
            {"figure": limit.figure, "percentile": limit.percentile, "limit": limit.seconds,
             "simulated": seconds}
            for limit, seconds in each.reached.items()
        ],
    }  # fmt: skip


def describe_day_search(answer: SharingAnswer) -> str:
    """How much was looked at, in a line."""
    problem = answer.case.problem
    modes: Sequence[Any] = [mode for kind in problem.kinds for mode in kind.modes]
    return (
        f"{len(problem.models)} models, {len(problem.machines)} machines, {len(modes)} modes, "
        f"{len(problem.need)} hours, {answer.seconds:.1f} s"
    )
