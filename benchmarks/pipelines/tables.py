"""Tables of seconds computed from layer shapes: they stand for recorded ones, and are not.

    seconds = (multiply-adds / pace(width) * f_c  +  bytes / bandwidth(width) * f_m) * j

of a kind of cores with a width: w cores compute w^0.9 times as fast as one, and have min(w, 4)
times its bandwidth up to the kind's. f_c and f_m are the scenario's factors, and j is a
deviation of up to 8 % of each layer in each scenario, from a hash, so that no model of two factors
explains a table. ODIN's twelve scenarios are iBench's CPU and memory programs with several numbers
of threads and pinnings; which ones is not known, so these are twelve of that shape.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from benchmarks.pipelines.networks import Layer, layers_of
from tvm_hetero.online.table import ALONE, RecordedBlock, Recording

_SCALING, _DEVIATION = 0.9, 0.08


class Kind(NamedTuple):
    """A kind of cores: multiply-adds/s and bytes/s of one core, bytes/s of all, widths."""

    pace: float
    bandwidth: float
    most: float
    widths: tuple[int, ...]


# Eight cores of a desktop processor are one place of ODIN's; a Jetson TX2 has two clusters;
# Shisha's fast places have fast cores and memory, its slow ones neither.
KINDS = {
    "core8": Kind(20e9, 8e9, 40e9, (8,)),
    "denver": Kind(8e9, 8e9, 20e9, (1, 2)),
    "a57": Kind(5e9, 4e9, 12e9, (1, 2, 3, 4)),
    "fast": Kind(20e9, 20e9, 120e9, (8,)),
    "slow": Kind(9e9, 6e9, 25e9, (8,)),
}
# Factors of computing and of memory traffic.
SCENARIOS = {
    ALONE: (1.0, 1.0),
    "cpu-1": (1.12, 1.05), "cpu-2": (1.25, 1.1), "cpu-4": (1.5, 1.2), "cpu-8": (2.0, 1.4),
    "memory-1": (1.03, 1.5), "memory-2": (1.05, 2.0), "memory-4": (1.1, 3.0),
    "memory-8": (1.15, 4.0),
    "both-1": (1.15, 1.5), "both-2": (1.3, 2.0), "both-4": (1.6, 3.0), "both-8": (2.1, 4.0),
}  # fmt: skip


def computed_table(network: str, *kinds: str) -> Recording:
    """The table of a network on some kinds of places, in all scenarios."""
    layers = layers_of(network)
    first = KINDS[kinds[0]]
    blocks = tuple(
        RecordedBlock(f"{i}:{layer.name}", layer.work, _bound(layer, first))
        for i, layer in enumerate(layers)
    )
    seconds = {
        scenario: {
            kind: {
                width: tuple(
                    _seconds(layer, i, kind, width, scenario) for i, layer in enumerate(layers)
                )
                for width in KINDS[kind].widths
            }
            for kind in kinds
        }
        for scenario in SCENARIOS
    }
    widths = {kind: KINDS[kind].widths for kind in kinds}
    return Recording(network, blocks, widths, tuple(SCENARIOS), seconds, "computed from shapes")


def _parts(layer: Layer, kind: Kind, width: int) -> tuple[float, float]:
    compute = layer.work / (kind.pace * width**_SCALING)
    return compute, layer.bytes / min(kind.most, kind.bandwidth * min(width, 4))


def _bound(layer: Layer, kind: Kind) -> str:
    compute, memory = _parts(layer, kind, kind.widths[-1])
    return "compute" if compute >= memory else "memory"


def _seconds(layer: Layer, i: int, kind: str, width: int, scenario: str) -> float:
    compute, memory = _parts(layer, KINDS[kind], width)
    by_compute, by_memory = SCENARIOS[scenario]
    drawn = zlib.crc32(f"{i} {kind} {width} {scenario}".encode()) / 2**32
    return (compute * by_compute + memory * by_memory) * (1 + _DEVIATION * (2 * drawn - 1))
