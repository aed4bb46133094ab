"""Do activations that stay blocked (NCHW16c) between convolutions pay? Measured per network.

    python -m benchmarks.layouts [--models NAME,...] [--small]     writes results/layouts.json

Every distinct convolution of a network is computed three times: by our rule, which reads and
writes NCHW, and by a kernel whose lanes are always output channels (`kernel_cases.blocked`), on
NCHW and on ``[n, c / 16, y, x, c % 16]``. That kernel has the best of several register tiles, so
that it is given its best chance; on NCHW it shows how much of the gain needs the layout.
Transformations at the edges of the network are not in the sums. Times are thread CPU time,
readings in turns, times how often the network has the convolution.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from benchmarks.documents import write_document
from benchmarks.kernel_cases.blocked import Tile, blocked_conv2d, tiles_of, to_blocks, to_planes
from benchmarks.kernel_cases.contest import (
    Call,
    caller,
    in_turns,
    machine,
    relative_error,
    scheduled,
)
from benchmarks.kernel_cases.convolutions import Convolution, of_network
from benchmarks.performance import totals
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

RESULTS = Path(__file__).with_name("results") / "layouts.json"
NETWORKS = ("resnet50", "squeezenet", "densenet121")
_SECONDS, _SMALL_SECONDS = 0.03, 0.004
_IN_ONE_BUILD = 16


_PLANES, _BLOCKED = 1, 16  # channels in a block
Found = tuple[Convolution, int]  # and how often a network has it
Variant = tuple[int, Tile]  # channels in a block, register tile


@dataclass(frozen=True)
class Row:
    """One convolution of a network: microseconds of a run by each kernel.

    ``nchw`` is our rule, ``channels`` the other kernel on NCHW, ``blocked`` that on blocks; the
    tiles are vectors by points.
    """

    network: str
    case: str
    times: int
    nchw_us: float
    channels_us: float
    channels_tile: str
    blocked_us: float
    blocked_tile: str
    error: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--models", default=",".join(NETWORKS), help="names with commas between")
    parser.add_argument("--small", action="store_true", help="two convolutions, no file")
    args = parser.parse_args(arguments)
    mcpu = own_mcpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 1})
    rows: list[Row] = []
    for network in args.models.split(","):
        found = list(Counter(of_network(network)).items())
        found, seconds = (found[:2], _SMALL_SECONDS) if args.small else (found, _SECONDS)
        for row in _rows(network, found, target, seconds):
            rows.append(row)
            print(_line(row), flush=True)
        print(_total(network, rows))
    if not args.small and args.models == ",".join(NETWORKS):
        write_document(RESULTS, "python -m benchmarks.layouts", map(asdict, rows), target=mcpu)
    return rows


def _line(row: Row) -> str:
    return (
        f"{row.network:<12}{row.case:<36.36}{row.times:>4} x{row.nchw_us:>10.1f}"
        f"{row.channels_us:>10.1f}{row.channels_tile:>6}{row.blocked_us:>10.1f}"
        f"{row.blocked_tile:>6}{row.error:>8.0e}"
    )


def _total(network: str, rows: Sequence[Row]) -> str:
    mine = [asdict(row) for row in rows if row.network == network]
    nchw, channels, blocked = totals(mine)
    return f"{network}: NCHW {nchw:.2f} ms, lanes channels {channels:.2f}, blocked {blocked:.2f}"


def _rows(
    network: str, found: Sequence[Found], target: tvm.target.Target, seconds: float
) -> Iterator[Row]:
    for start in range(0, len(found), _IN_ONE_BUILD):
        portion = found[start : start + _IN_ONE_BUILD]
        for (convolution, times), calls in zip(portion, _built(portion, target), strict=True):
            yield _row(network, convolution, times, calls, seconds)


def _row(network: str, convolution: Convolution, times: int, calls: Calls, seconds: float) -> Row:
    expected = calls.nchw().numpy()
    results = [to_planes(call().numpy(), expected.shape[1]) for _, call in calls.others]
    error = max(relative_error(result, expected) for result in results)
    nchw, *taken = in_turns([calls.nchw, *(call for _, call in calls.others)], seconds)
    best: dict[int, tuple[float, str]] = {}
    for ((block, tile), _), time in zip(calls.others, taken, strict=True):
        found = (1e6 * time, f"{tile.vectors}x{tile.points}")
        best[block] = min(best.get(block, found), found)
    return Row(
        network, convolution.name, times, 1e6 * nchw, *best[_PLANES], *best[_BLOCKED], error
    )  # fmt: skip


@dataclass(frozen=True)
class Calls:
    """A convolution ready to be called: by our rule, and with each block and tile."""

    nchw: Call
    others: list[tuple[Variant, Call]]


def _built(found: Sequence[Found], target: tvm.target.Target) -> Iterator[Calls]:
    """The calls of a portion of convolutions, all compiled in two builds."""
    cases = [convolution.case("") for convolution, _ in found]
    models = [case.model() for case in cases]
    lowered = [scheduled(LowerToTasks([target])(from_onnx(model)), target) for model in models]
    nchw = machine(lowered, target)
    variants: list[tuple[int, Variant]] = [
        (i, (block, tile))
        for i, (convolution, _) in enumerate(found)
        for block in (_PLANES, _BLOCKED)
        for tile in tiles_of(convolution)
    ]
    weights = [_weight(model) for model in models]
    others = machine(
        [blocked_conv2d(found[i][0], weights[i], tile, block) for i, (block, tile) in variants],
        target,
    )
    for i, case in enumerate(cases):
        x = case.arrays()["x"]
        data = {b: tvm.runtime.tensor(to_blocks(x, b)) for b in (_PLANES, _BLOCKED)}
        yield Calls(
            caller(nchw[f"case{i}"], [tvm.runtime.tensor(x)]),
            [
                (variant, caller(others[f"case{n}"], [data[variant[0]]]))
                for n, (of, variant) in enumerate(variants)
                if of == i
            ],
        )


def _weight(model: Any) -> NDArray[Any]:
    (tensor,) = model.graph.initializer
    return np.frombuffer(tensor.raw_data, np.float32).reshape(tensor.dims)


if __name__ == "__main__":
    main()
