"""Record a model: what each of its blocks takes on every kind and width of place, in all scenarios.

The model is prepared as for a partition over these places: its kernels are measured alone, once,
to choose among ways to compute them (`tvm_hetero.cost_models.profiled`; the store remembers). Then
the whole network is built for one place after the other and runs there, every kernel timed, as for
the costs of a partition (`tvm_hetero.cost_models.in_network`), alone and under each disturbance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_hetero import __version__
from tvm_hetero.cost_models.in_network.run import Load, open_networks
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.errors import ProfileError
from tvm_hetero.online.chain import Chain, chain_of
from tvm_hetero.online.hints import task_weights
from tvm_hetero.online.record.measure import TURNS, measure_noise, measure_scenarios, sums
from tvm_hetero.online.record.places import PlaceKind, place_devices, platform_of
from tvm_hetero.online.record.scenarios import Scenario
from tvm_hetero.online.table import RecordedBlock, Recording
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Prepared, make_problem
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.host import read_processor

if TYPE_CHECKING:
    import tvm

# What does so many operations a byte is bound by arithmetic, on the cores that we know (tens of
# billions of operations and some billions of bytes a second).
_BALANCE = 10.0


@dataclass(frozen=True)
class RecordingPlan:
    """What is recorded.

    Attributes
    ----------
    kinds : of places; scenarios : the quiet one first.
    seconds : of measuring on each place in each scenario.
    noise : requests at rest, of which the first place's noise is known; 0: none.
    cost_model : by which ways to compute kernels are chosen.
    """

    kinds: tuple[PlaceKind, ...]
    scenarios: tuple[Scenario, ...]
    seconds: float = 2.0
    noise: int = 500
    cost_model: str = "profiled-alone"


def prepare(mod: tvm.IRModule, plan: RecordingPlan, progress: Progress | None = None) -> Prepared:
    """The model's problem on the places.

    See `tvm_hetero.pipeline.partition.make_problem` and `place_devices` for errors.
    """
    platform = platform_of(place_devices(plan.kinds))
    options = PartitionOptions(cost_model=plan.cost_model)
    return make_problem(mod, platform, options, progress)


def record(prepared: Prepared, plan: RecordingPlan, progress: Progress | None = None) -> Recording:
    """Run the model on every place in every scenario.

    Parameters
    ----------
    prepared : as `prepare` gave it for this plan.
    progress : told of each scenario on each place.

    Raises
    ------
    ProfileError
        If the network cannot be run on a place, or a disturber could not.
    """
    chain = chain_of(prepared.problem)
    devices = place_devices(plan.kinds)
    columns: dict[str, dict[str, dict[int, tuple[float, ...]]]] = {
        scenario.name: {kind.name: {} for kind in plan.kinds} for scenario in plan.scenarios
    }
    noise: tuple[float, ...] = ()
    for number, ((kind, width), device) in enumerate(devices.items()):
        teller = _Teller(progress, device.name, number, len(devices), len(plan.scenarios))
        wanted = plan.noise if number == 0 else 0
        found, samples = _on_place(prepared, device, plan, wanted, teller)
        noise = noise or samples
        for scenario, seconds in found.items():
            columns[scenario][kind][width] = sums(chain.members, seconds)
    return Recording(
        name=prepared.problem.name,
        blocks=recorded_blocks(chain),
        kinds={kind.name: kind.widths for kind in plan.kinds},
        scenarios=tuple(scenario.name for scenario in plan.scenarios),
        seconds=columns,
        source=f"measured on {read_processor().identity} by tvm_hetero {__version__}",
        noise=noise,
    )


def _on_place(
    prepared: Prepared, device: Device, plan: RecordingPlan, noise: int, teller: _Teller
) -> tuple[dict[str, dict[str, float]], tuple[float, ...]]:
    """Seconds of each task in each scenario on one place; and the noise, if it is wanted."""
    teller.tell("build")
    loads = [Load(device.name)]
    with open_networks(prepared.module, prepared.problem, loads, _refuse, None) as built:
        (network,) = built
        found = measure_scenarios(network, plan.scenarios, device.cores, plan.seconds, teller.tell)
        return found, measure_noise(network, noise) if noise else ()


def _refuse(device: str, why: str) -> None:
    raise ProfileError(f"the network cannot be recorded on {device!r}: {why}")


@dataclass
class _Teller:
    """Counts what has been told of one place after the other."""

    progress: Progress | None
    place: str
    number: int
    places: int
    scenarios: int
    told: int = 0

    def tell(self, what: str) -> None:
        if self.progress is not None:
            each = 1 + TURNS * self.scenarios
            done = self.number * each + self.told
            self.progress(f"record on {self.place}: {what}", done, self.places * each)
        self.told += 1


def recorded_blocks(chain: Chain) -> tuple[RecordedBlock, ...]:
    """Each block of a chain with the name of its first task, its weight, and what bounds it."""
    graph = chain.problem.graph
    weights = task_weights(graph)
    return tuple(
        RecordedBlock(
            name=members[0],
            weight=math.fsum(weights[task] for task in members),
            bound=_bound(chain, members),
        )
        for members in chain.members
    )


def _bound(chain: Chain, members: Sequence[str]) -> str:
    """By operations a byte."""
    tasks = [chain.problem.graph.task(task) for task in members]
    moved = math.fsum(task.bytes for task in tasks)
    operations = math.fsum(task.flops for task in tasks)
    return "compute" if operations > _BALANCE * moved else "memory"
