"""Which implementation each kernel has on each device, and what the others would have taken.

A kernel can be computed in up to four ways (`tvm_hetero.kernels.tir.implementation_attr`): by its
rule, as TVM's default loop nest, as tuned, or summed up directly where the rule is Winograd's. All
that was measured is kept here beside the choice, so that a plan can be questioned: ``tvm-hetero
show ARTIFACT --kernels``.

How the choice is made. Times are the smallest of many repeats, `spread` says how far above it the
lower quarter of the repeats reached. Another implementation than the rule's must beat it by more
than both spreads, and by `MARGIN` at least: what cannot be told apart stays with the rule. (Of a
spread, no more than `WIDEST` of the time counts: a wider one speaks of the machine, and must not
keep one that takes a tenth of the time out.) One whose output was wrong is no candidate, be it
ever so fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.problem.cost import IMPLEMENTATIONS
from tvm_hetero.util.documents import check_format
from tvm_hetero.util.fields import Fields

FORMAT = "tvm-hetero/kernels/1"
RULE = IMPLEMENTATIONS[0]
# Rules that take what no family's rule takes: a kernel of one of them fell back.
FALL_BACKS = frozenset({"generic", "default", "dlight fallback"})
# What the clock and the turns themselves can be off by.
MARGIN = 0.02
WIDEST = 0.25


@dataclass(frozen=True)
class Timing:
    """What one implementation takes: the smallest of its repeats, and how far they spread (s).

    `spread` is None where it was not kept.
    """

    seconds: float
    spread: float | None = None


@dataclass(frozen=True)
class Choice:
    """How one kernel is computed on one device.

    Attributes
    ----------
    rule : the schedule rule that takes the kernel on this device.
    implementation : what was chosen, one of `IMPLEMENTATIONS`.
    times : what was measured of each implementation that computes the right thing.
    refused : why each of the others was refused.
    """

    kernel: str
    device: str
    rule: str
    implementation: str = RULE
    times: Mapping[str, Timing] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def fell_back(self) -> bool:
        """Whether no family's rule took the kernel."""
        return self.rule in FALL_BACKS

    @property
    def timing(self) -> Timing | None:
        """What the chosen implementation takes, None where nothing was measured."""
        return self.times.get(self.implementation)


def fastest(times: Mapping[str, Timing]) -> str:
    """The implementation to take, out of at least one; see the file's text."""
    best, *others = (name for name in IMPLEMENTATIONS if name in times)
    for name in others:
        if beats(times[name], times[best]):
            best = name
    return best


def beats(one: Timing, other: Timing) -> bool:
    """Whether what takes `one` is quicker by more than what both may be off by."""
    spreads = [min(each.spread or 0.0, WIDEST * each.seconds) for each in (one, other)]
    return one.seconds + max(*spreads, MARGIN * other.seconds) < other.seconds


def choices_to_dict(choices: Iterable[Choice]) -> dict[str, Any]:
    """The document of choices."""
    return {"format": FORMAT, "kernels": [_row(choice) for choice in choices]}


def choices_from_dict(data: object, where: str = "kernels") -> tuple[Choice, ...]:
    """Read a document of choices.

    Raises
    ------
    FormatError
        If it says something unknown or of the wrong kind.
    """
    check_format(data, FORMAT, where)
    # What kernels take is read by `tvm_hetero.plan.kernel_takes`.
    row = Fields(data, where, ["format", "kernels"], ["takes"])
    return row.rows("kernels", _choice, "kernel")


def _row(choice: Choice) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kernel": choice.kernel,
        "device": choice.device,
        "rule": choice.rule,
        "implementation": choice.implementation,
        "times": {
            name: {"seconds": timing.seconds, "spread": timing.spread}
            for name, timing in choice.times.items()
        },
    }
    if choice.refused:
        row["refused"] = dict(choice.refused)
    return row


def _choice(data: object, where: str) -> Choice:
    required = ["kernel", "device", "rule", "implementation", "times"]
    row = Fields(data, where, required, ["refused"])
    times = Fields(row.data["times"], row.at("times"), [], IMPLEMENTATIONS)
    refused = Fields(row.mapping("refused", default={}), row.at("refused"), [], IMPLEMENTATIONS)
    return Choice(
        kernel=row.text("kernel"),
        device=row.text("device"),
        rule=row.text("rule"),
        implementation=row.choice("implementation", IMPLEMENTATIONS),
        times={name: _timing(times, name) for name in times.data},
        refused={name: refused.text(name) for name in refused.data},
    )


def _timing(times: Fields, name: str) -> Timing:
    row = times.fields(name, ["seconds", "spread"])
    seconds = row.number("seconds", "seconds above 0")
    if seconds == 0:
        row.refuse("seconds", "seconds above 0")
    spread = row.number("spread", "seconds or null") if row.has("spread") else None
    return Timing(seconds, spread)
