"""How long a model's libraries take to compile for two heterogeneous devices, on one core and all.

    python -m benchmarks.building             the nine light models, writes results/building.json
    python -m benchmarks.building --small     a tiny one, no file (the tests run it)

A light model is divided between a core with this machine's instructions and one limited to
x86-64-v2, with the costs of the analytical model, and built, single device and all, each time with
an empty cache. Wall seconds of `tvm_hetero.build`, the least of some runs in turns: with this
process kept to one core, and with all that it may use.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import tvm_hetero as th
from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import TINY, make_model
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.platform.host import available_cores
from tvm_hetero.problem import Objective

_TURNS = 3
_PLAIN = "x86-64-v2"


@dataclass(frozen=True)
class Row:
    """One model; `seconds` by the number of cores that compiled it."""

    model: str
    kernels: int
    seconds: dict[str, float]

    @property
    def gain(self) -> float:
        """The time on one core over that on all."""
        return self.seconds["one"] / self.seconds["all"]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, no file")
    args = parser.parse_args(arguments)
    rows = []
    for name in [TINY] if args.small else sorted(light_models()):
        rows.append(measure(name, 1 if args.small else _TURNS))
        print(_line(rows[-1]), flush=True)
    cores = len(available_cores())
    print(f"one core / {cores} cores: {geometric_mean([row.gain for row in rows]):.2f} in the mean")
    if not args.small:
        path = RESULTS / "building.json"
        write_document(path, "python -m benchmarks.building", map(asdict, rows), compiled_on=cores)
        print(f"written to {path}")
    return rows


def measure(name: str, turns: int) -> Row:
    """One model, `turns` times on one core and on all."""
    options = PartitionOptions(Objective("throughput"), time_limit=1, cost_model="analytical")
    mod = partition(from_onnx(make_model(name)), _unlike(), options).module
    everywhere = available_cores()
    cores = {"one": frozenset({min(everywhere)}), "all": everywhere}
    taken: dict[str, list[float]] = {side: [] for side in cores}
    kernels = 0
    for _ in range(turns):
        for side, some in cores.items():
            with _empty_cache(), _kept_to(some):
                began = time.perf_counter()
                built = th.build(mod)
                taken[side].append(time.perf_counter() - began)
            kernels = len({choice.kernel for choice in built.choices})
    return Row(name, kernels, {side: min(each) for side, each in taken.items()})


def _unlike() -> Platform:
    """Two devices of a core each, for which every kernel is compiled anew; made-up speeds."""
    cores = min(available_cores()), max(available_cores())
    own, plain = (
        Device(
            mcpu, target={"kind": "llvm", "mcpu": mcpu}, cores=(core,), overlap=True,
            peak_flops=1e11, bandwidth=2e10, launch=2e-6,
        )
        for mcpu, core in zip((own_mcpu(), _PLAIN), cores, strict=True)
    )  # fmt: skip
    ways = ((own.name, plain.name), (plain.name, own.name))
    links = tuple(Link(source, target, 1e10, 1e-6) for source, target in ways)
    return Platform((own, plain), links, name="unlike", shared_cores=cores[0] == cores[1])


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A cache of its own, gone afterwards."""
    before = os.environ.get("TVM_HETERO_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TVM_HETERO_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["TVM_HETERO_CACHE"]
            if before is not None:
                os.environ["TVM_HETERO_CACHE"] = before


@contextmanager
def _kept_to(cores: frozenset[int]) -> Iterator[None]:
    """This thread, and those that it starts, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _line(row: Row) -> str:
    seconds = " ".join(f"{side} {one:6.2f} s" for side, one in row.seconds.items())
    return f"{row.model:<14}{row.kernels:>5} kernels  {seconds}  {row.gain:.2f} times"


if __name__ == "__main__":
    main()
