"""What happens on the cores while a network is recorded: nothing, or a disturbance of ours.

    busy      a busy loop on a core of the place: it has half of that core
    stream    a memory stream beside the place, on a core that is not of it
    thrash    a program beside the place that fills the last-level cache

``KIND@own`` and ``KIND@beside`` say where. Where a place has all cores, what was to be beside it is
on its last core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tvm_hetero.errors import UsageError
from tvm_hetero.online.table import ALONE
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes.disturbance import KINDS
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote

Where = Literal["own", "beside"]
_USUALLY: dict[str, Where] = {"busy": "own", "stream": "beside", "thrash": "beside"}


@dataclass(frozen=True)
class Scenario:
    """A name, the kind of the disturbance (empty: none), and where it is."""

    name: str
    kind: str = ""
    where: Where = "own"

    def core(self, cores: Sequence[int]) -> int:
        """The core on which it disturbs a place that has `cores`."""
        others = sorted(set(available_cores()) - set(cores))
        return others[-1] if self.where == "beside" and others else max(cores)


QUIET = Scenario(ALONE)


def parse_scenarios(texts: Sequence[str]) -> tuple[Scenario, ...]:
    """Read ``busy``, ``stream@own`` and the like, after the quiet scenario, which is always there.

    Raises
    ------
    UsageError
        If there is no such disturbance or place, or one is given twice.
    """
    found = {ALONE: QUIET}
    for text in texts:
        kind, at, where = text.partition("@")
        if kind not in KINDS:
            raise UsageError(f"no disturbance {quote(kind)}{nearest(kind, KINDS)}")
        if at and where not in get_args(Where):
            raise UsageError(
                f"disturbance {quote(text)}: expected {kind}@own (on the place's own core) or "
                f"{kind}@beside (on another one)"
            )
        if text in found:
            raise UsageError(f"disturbance {quote(text)} is given twice")
        chosen = next((each for each in get_args(Where) if each == where), _USUALLY[kind])
        found[text] = Scenario(text, kind, chosen)
    return tuple(found.values())
