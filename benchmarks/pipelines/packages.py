"""The tables of multi-chip packages: a preset's own costs, with the scenarios of computed tables.

A network becomes a chain of blocks on the preset's places (`tvm_hetero.online.chain`), in seconds
of the roofline that plans use as well; a disturbance slows a block by the scenario's factor of what
bounds it on the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.pipelines.tables import SCENARIOS
from tvm_hetero import zoo
from tvm_hetero.online.chain import Chain, chain_of, places_of
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.table import RecordedBlock, Recording
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem import Objective


def package_chain(network: str, preset: str) -> tuple[Chain, tuple[Place, ...]]:
    """The blocks of a network, and the places of a package that can run all of them."""
    problem = zoo.problem(network, preset, Objective("throughput", contiguous=True))
    chain = chain_of(problem)
    able = {
        d for d in problem.platform.names if all(_runs(chain, d, block) for block in chain.members)
    }
    return chain, tuple(place for place in places_of(problem.platform) if place.name in able)


def package_recording(network: str, preset: str) -> Recording:
    """A network on a package as a table for each kind of place."""
    chain, places = package_chain(network, preset)
    kinds = {place.kind: place for place in places}
    problem = chain.problem
    task = problem.graph.task
    work = [sum(task(t).flops for t in block) / 2 for block in chain.members]
    moved = [sum(task(t).bytes for t in block) for block in chain.members]
    first = problem.platform.device(places[0].name)
    blocks = tuple(
        RecordedBlock(f"{b}:{block[0]}", max(1.0, work[b]), _bound(work[b], moved[b], first))
        for b, block in enumerate(chain.members)
    )
    seconds = {
        scenario: {
            kind: {place.width: _disturbed(chain, place, work, moved, scenario)}
            for kind, place in kinds.items()
        }
        for scenario in SCENARIOS
    }
    widths = {kind: (place.width,) for kind, place in kinds.items()}
    source = f"computed from platforms/{preset}.yaml"
    return Recording(network, blocks, widths, tuple(SCENARIOS), seconds, source)


def package_setting(network: str, preset: str, alpha: int = 10) -> Setting:
    """What a policy is told of it in quiet: places, weights and speeds, seconds where it may."""
    recording = package_recording(network, preset)
    _, places = package_chain(network, preset)
    platform = zoo.platform(preset)
    speeds = tuple(platform.device(place.name).peak_flops or 0.0 for place in places)
    static = Configuration((len(recording.blocks),), (0,))
    seconds = recording.seconds_on(places)
    return Setting(places, recording.weights, static, seconds, speeds, recording.bounds, alpha)


def _runs(chain: Chain, device: str, block: Sequence[str]) -> bool:
    return all(device in chain.problem.costs[task] for task in block)


def _disturbed(
    chain: Chain, place: Place, work: Sequence[float], moved: Sequence[float], scenario: str
) -> tuple[float, ...]:
    device = chain.problem.platform.device(place.name)
    factors = dict(zip(("compute", "memory"), SCENARIOS[scenario], strict=True))
    alone = (row[0] for row in chain.seconds_on([place]))
    return tuple(t * factors[_bound(work[b], moved[b], device)] for b, t in enumerate(alone))


def _bound(work: float, moved: float, device: Device) -> str:
    """What bounds so much work (multiply-adds) and traffic (bytes) on a device, by its roofline."""
    assert device.peak_flops is not None and device.bandwidth is not None
    return "compute" if 2 * work / device.peak_flops >= moved / device.bandwidth else "memory"
