"""What is minimised: latency, throughput, energy or cost, of a batch and under a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tvm_hetero.errors import FormatError
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote

Kind = Literal["latency", "throughput", "energy", "cost"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Schedules name every element, so larger batches than this cannot be written down anyway.
MAX_BATCH = 1_000_000


@dataclass(frozen=True)
class Objective:
    """What is minimised: `kind`, for how many elements at once, and under which latency (s).

    With `contiguous` (throughput only) the devices in use form a pipeline: no cycle leads from
    device to device over the tensors that one makes and the next reads.
    """

    kind: Kind = "latency"
    batch: int = 1
    latency_limit: float | None = None
    contiguous: bool = False


def check_objective(objective: Objective, platform: Platform) -> None:
    """Refuse an objective that makes no sense, or not on this platform.

    Raises
    ------
    FormatError
        If its kind is unknown, its batch or limit is wrong, it asks for contiguous stages of
        anything but throughput, or a device lacks the figure (`watts`, `price`) that it needs.
    """
    if objective.kind not in KINDS:
        near = nearest(objective.kind, KINDS)
        raise FormatError(f"objective: unknown kind {quote(objective.kind)}{near}")
    if not 1 <= objective.batch <= MAX_BATCH:
        raise FormatError(
            f"objective: expected a batch of 1 to {MAX_BATCH} elements, "
            f"got {quote(objective.batch)}"
        )
    if objective.latency_limit is not None and objective.kind not in {"energy", "cost"}:
        raise FormatError(f"objective: {objective.kind} takes no latency_limit; leave it out")
    if objective.contiguous and objective.kind != "throughput":
        raise FormatError(
            f"objective: contiguous stages belong to throughput, not to {objective.kind}; "
            "leave contiguous out"
        )
    needed = {"energy": "watts", "cost": "price"}.get(objective.kind)
    if needed:
        lacking = [d.name for d in platform.devices if getattr(d, needed) is None]
        if lacking:
            raise FormatError(
                f"objective {objective.kind}: device {quote(lacking[0])} has no {needed}; add it "
                "in the platform file ('tvm-hetero devices -o P.yaml' writes one of this machine)"
            )
