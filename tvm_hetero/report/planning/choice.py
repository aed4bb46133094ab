"""What to run on what, for a reader: the choice, its proof and simulation, and its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm_hetero.planning.choosing.answer import ChoiceAnswer
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.find_choice import MachineChoice, cost_of
from tvm_hetero.planning.choosing.neighbours import floors_below, is_over_budget
from tvm_hetero.planning.choosing.options import CutOption
from tvm_hetero.planning.choosing.program import goal_of
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_seconds

# With fewer requests that may be late, a percentile is chance.
_TAIL = 10
UNIT = {"price": "an hour", "energy": "W", "accuracy": "accuracy in the mean"}
HEADERS = ("class", "variant", "machine", "replicas", "batches", "share of each", "plan's gap")
PLAYED = ("class", "limit", "SLO", "simulated")
FRONT = ("price", "accuracy", "W", "replicas")


def choice_text(answer: ChoiceAnswer) -> str:
    """Replicas, what they are worth, the simulation, what binds, and the neighbours."""
    request, choice = answer.case.request, answer.choice
    parts = [
        format_table(HEADERS, replica_rows(request, choice)),
        worth_of(request, choice),
        format_table(PLAYED, played_rows(request, choice)),
        "\n".join([*neighbour_lines(answer), *binding_lines(answer)]),
    ]
    if request.goal == "front":
        rows = [front_row(request, each) for each in answer.front]
        parts.append(format_table(FRONT, rows))
        parts += front_notes(answer)
    return "\n\n".join(parts)


def replica_rows(request: ChoiceRequest, choice: MachineChoice) -> list[list[str]]:
    """A row for each option that is used."""
    return [
        [
            request.classes[rated.served].name,
            rated.option.variant.name,
            rated.option.machine.label,
            str(count),
            f"up to {rated.option.batch}",
            f"{100 * rated.capacity / UNITS:.3g} % at most",
            f"{100 * rated.option.plan.gap:.2g} %",
        ]
        for rated, count in choice.replicas
    ]


def worth_of(request: ChoiceRequest, choice: MachineChoice) -> str:
    """Value, bound and gap of the goal, and the other figures, in a paragraph."""
    goal = goal_of(request)
    unit = "W where all have their full shares" if goal == "energy" else UNIT[goal]
    word = "no choice has more than" if goal == "accuracy" else "no choice has less than"
    lines = [
        f"{choice.price:.4g} an hour, {_watts(choice.watts)}, accuracy {choice.accuracy:.4g} in "
        "the mean",
        f"{choice.value:.5g} {unit}; {word} {choice.bound:.5g} (gap {100 * choice.gap:.2g} %)",
    ]
    busiest = max(each.busiest for each in choice.played)
    lines.append(f"The busiest replica gets {100 * busiest:.3g} % of what it can go on answering.")
    lines += [
        f"Class {request.classes[k].name} has replicas for a load {100 * margin:.0f} % higher: "
        "with fewer its SLO broke in the simulation."
        for k, margin in choice.margins.items()
    ]
    lines += [
        f"Class {served.name} has {count_noun(len(served.requests), 'request')}, few for its SLO: "
        "others of the same rate may break it; let them arrive for longer ('seconds')."
        for served in request.classes
        if served.fewest_late < _TAIL
    ]
    return "\n".join(lines)


def _watts(watts: float) -> str:
    return "watts not known" if math.isnan(watts) else f"{watts:.4g} W"


def played_rows(request: ChoiceRequest, choice: MachineChoice) -> list[list[str]]:
    """Each limit of each class, and what the simulation reached."""
    return [
        [
            request.classes[each.served].name,
            limit.name,
            format_seconds(limit.seconds),
            format_seconds(seconds),
        ]
        for each in choice.played
        for limit, seconds in each.reached.items()
    ]


def neighbour_lines(answer: ChoiceAnswer) -> list[str]:
    """What the next cheaper and the next better choice would give up."""
    return [_cheaper_line(answer), _better_line(answer)]


def _cheaper_line(answer: ChoiceAnswer) -> str:
    request, choice, less = answer.case.request, answer.choice, answer.cheaper
    if less is None and answer.cheapest:
        return "Cheaper: nothing that keeps the SLO, with whatever accuracy."
    if less is None:
        return "Cheaper: nothing was found that keeps the SLO, with whatever accuracy."
    lost = choice.accuracy - less.accuracy
    words = [f"gives up {lost:.3g} of accuracy"] if lost > 0 else []
    words += [
        f"has {less.accuracies[k]:g} of accuracy for {request.classes[k].name}, which asks for "
        f"{request.classes[k].least_accuracy:g}"
        for k in floors_below(request, less)
    ]
    if is_over_budget(request, less):
        words.append("is over the budget")
    return (
        f"Cheaper: {cost_of(request, less):.4g} {_cost_unit(request)} {', '.join(words)} "
        f"({replica_words(request, less)})."
    )


def _better_line(answer: ChoiceAnswer) -> str:
    request, choice, more = answer.case.request, answer.choice, answer.better
    if more is None and answer.best:
        return "Better: nothing is more accurate within the question."
    if more is None:
        return "Better: nothing was found that is more accurate within the question."
    return (
        f"Better: {more.accuracy - choice.accuracy:.3g} more accuracy costs "
        f"{cost_of(request, more) - cost_of(request, choice):.4g} more {_cost_unit(request)} "
        f"({replica_words(request, more)})."
    )


def _cost_unit(request: ChoiceRequest) -> str:
    return UNIT["energy" if request.goal == "energy" else "price"]


def binding_lines(answer: ChoiceAnswer) -> list[str]:
    """What binds, a line each: by the program alone, which says nothing of a simulation."""
    unit = UNIT[goal_of(answer.case.request)]
    lines = [
        f"Binding: {b.what}; without it {b.value:.4g} {unit} (not simulated)."
        for b in answer.binding
    ]
    if answer.untried:
        return [*lines, f"Binding or not, unknown for want of time: {', '.join(answer.untried)}."]
    return lines or ["Binding: no limit by itself; whole machines and the load decide."]


def replica_words(request: ChoiceRequest, choice: MachineChoice) -> str:
    """``interactive: 3 x r50 on t4; ...``."""
    words: dict[int, list[str]] = {}
    for rated, count in choice.replicas:
        option = rated.option
        words.setdefault(rated.served, []).append(
            f"{count} x {option.variant.name} on {option.machine.label}"
        )
    return "; ".join(
        f"{request.classes[k].name}: {' + '.join(w)}" for k, w in sorted(words.items())
    )


def front_row(request: ChoiceRequest, choice: MachineChoice) -> list[str]:
    """A point of the front."""
    watts = "" if math.isnan(choice.watts) else f"{choice.watts:.4g}"
    words = replica_words(request, choice)
    return [f"{choice.price:.4g}", f"{choice.accuracy:.4g}", watts, words]


def front_notes(answer: ChoiceAnswer) -> list[str]:
    """What is to be said of a front that lacks points."""
    if answer.front_whole:
        return []
    return [
        "Points of the front were left out: there are too many, their SLO broke when they were "
        "played, or the time was up."
    ]


def choice_dict(answer: ChoiceAnswer) -> dict[str, Any]:
    """The same for machines."""
    request = answer.case.request

    def point(choice: MachineChoice | None) -> dict[str, Any] | None:
        return None if choice is None else _point(request, choice)

    return {
        "request": request.name,
        "goal": request.goal,
        "choice": point(answer.choice),
        "cheaper": point(answer.cheaper),
        "cheapest": answer.cheapest,
        "better": point(answer.better),
        "best": answer.best,
        "binding": [{"what": each.what, "value": each.value} for each in answer.binding],
        "untried": list(answer.untried),
        "front": [point(each) for each in answer.front],
        "front_whole": answer.front_whole,
        "planned": len(answer.case.planned),
        "dominated": [_cut_row(request, each) for each in answer.case.cut],
        "seconds": answer.seconds,
    }


def _cut_row(request: ChoiceRequest, cut: CutOption) -> dict[str, Any]:
    """The certificate: what it carries at most, and what carries more on the same machine."""
    return {
        "class": request.classes[cut.served].name,
        "option": cut.option.name,
        "carries_at_most": cut.most / UNITS,
        "simulated": cut.simulated,
        "by": cut.by.option.name,
        "carries": cut.by.capacity / UNITS,
    }


def _point(request: ChoiceRequest, choice: MachineChoice) -> dict[str, Any]:
    return {
        "price": choice.price,
        "watts": None if math.isnan(choice.watts) else choice.watts,
        "accuracy": choice.accuracy,
        "value": choice.value,
        "bound": choice.bound,
        "gap": choice.gap,
        "margin": [choice.margins.get(k, 0.0) for k in range(len(choice.need))],
        "replicas": [_replica_row(request, *row) for row in choice.replicas],
        "classes": [
            {
                "class": request.classes[each.served].name,
                "requests": len(request.classes[each.served].requests),
                "busiest": each.busiest,
                "slo": _limits(each.reached.items()),
            }
            for each in choice.played
        ],
    }


def _limits(reached: Any) -> list[dict[str, Any]]:
    return [
        {"figure": limit.figure, "percentile": limit.percentile, "limit": limit.seconds,
         "simulated": seconds}
        for limit, seconds in reached
    ]  # fmt: skip


def _replica_row(request: ChoiceRequest, rated: Any, count: int) -> dict[str, Any]:
    option = rated.option
    return {
        "class": request.classes[rated.served].name,
        "variant": option.variant.name,
        "precision": option.variant.precision,
        "machine": option.machine.name,
        "level": option.machine.level,
        "replicas": count,
        "batch": option.batch,
        "carries": rated.capacity / UNITS,
        "plan": {
            "devices": list(option.devices),
            "seconds": option.plan.value,
            "lower_bound": option.plan.lower_bound,
            "gap": option.plan.gap,
            "solver": option.plan.solver,
        },
    }


def describe_search(answer: ChoiceAnswer) -> str:
    """How much was looked at, in a line."""
    case: Sequence[Any] = (answer.case.planned, answer.case.rated, answer.case.cut)
    planned, rated, cut = map(len, case)
    return (
        f"{count_noun(planned, 'plan')}, {count_noun(rated, 'option')} kept, "
        f"{cut} dominated, {answer.seconds:.1f} s"
    )
