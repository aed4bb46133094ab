"""Where replayed models are placed: two CPUs that need not be here, and costs that nobody measured.

The targets are given by name, so that what is scheduled for them is the same on every machine. A
kernel's cost hangs on its arithmetic, its bytes and the hash of its name alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.cost_models.table import TableCosts, dump_costs
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective

# Flop/s of the two devices, and what a call costs at least, s.
_SPEED = {"big": 2e11, "little": 8e10}
_BANDWIDTH, _LAUNCH = 1e10, 2e-6
# Four elements at once take less than four times as long.
_FOUR = 3.5


def two_cpus(*, private: bool = False) -> Platform:
    """A CPU with AVX-512 and one with AVX2, a core each; the second with a memory of its own or
    not.
    """
    return Platform(
        devices=(
            Device("big", target=cpu("skylake-avx512"), cores=(0,), overlap=True),
            Device("little", target=cpu("x86-64-v3"), cores=(1,), overlap=True, private=private),
        ),
        links=(Link("big", "little", 1e10, 1e-6), Link("little", "big", 1e10, 1e-6)),
        name="two-cpus",
    )


def cpu(mcpu: str, cores: int = 1) -> dict[str, object]:
    """The target of a kind of CPU."""
    return {"kind": "llvm", "mcpu": mcpu, "num-cores": cores}


class NamedCosts:
    """A cost model: a table that is made of the kernels themselves, through its file."""

    name = "table:replay"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        """What the table says of the kernels."""
        rows = {k.name: {d: cost_of(k, d) for d in platform.names} for k in kernels}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "costs.json"
            dump_costs(rows, path)
            return TableCosts(path).costs(kernels, platform, progress)


def cost_of(kernel: Kernel, device: str) -> Cost:
    """A roofline, off by up to a quarter to either side as the hash of the names says."""
    drawn = hashlib.sha256(f"{kernel.name} on {device}".encode()).digest()
    share = 0.75 + int.from_bytes(drawn[:4], "big") / 2**33
    seconds = kernel.flops / _SPEED[device] + kernel.bytes / _BANDWIDTH + _LAUNCH
    return Cost(((1, seconds * share), (4, seconds * share * _FOUR)))


@dataclass(frozen=True)
class Placement:
    """What a model is solved for, by whom, and where."""

    objective: Objective
    solver: str
    private: bool = False

    @property
    def name(self) -> str:
        """Goal, batch and solver."""
        goal = f"{self.objective.kind}-{self.objective.batch}-{self.solver}"
        return goal + ("-private" if self.private else "")

    @property
    def platform(self) -> Platform:
        """The two CPUs."""
        return two_cpus(private=self.private)


# Answers of these do not hang on the clock.
LATENCY = Placement(Objective("latency"), "heft")
THROUGHPUT = Placement(Objective("throughput", 4), "elements")
PLACEMENTS = (
    LATENCY,
    THROUGHPUT,
    Placement(Objective("latency", 2), "heft"),
    Placement(Objective("throughput", 2), "shares"),
    replace(LATENCY, private=True),
    replace(THROUGHPUT, private=True),
)
