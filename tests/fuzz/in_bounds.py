"""No kernel reads or writes outside of its arrays, whatever stands in them.

    python -m tests.fuzz.in_bounds [--seconds S] [--first SEED] [--nodes N]

Random models (`onnx_models`) are lowered, and each kernel is compiled alone and called on arrays
between walls (`guarded`), with values that no one would expect: the largest and smallest numbers,
negative indices, NaN.  An error of a kernel is an answer; the end of the process is not.  Seeds run
in child processes, so a fault names its seed and kernel.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tests.fuzz.guarded import GuardedArrays
from tests.fuzz.onnx_models import grow
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import HeteroError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGETS = ("x86-64-v3", "x86-64-v2")
_AT_ONCE = 10


def kernels(seed: int, nodes: int) -> Iterator[tuple[str, tvm.tirx.PrimFunc]]:
    """Yield the kernels of the model of a seed, none where it is refused."""
    lower: tvm.transform.Pass = LowerToTasks()
    try:
        module = lower(from_onnx(grow(seed, nodes, wild=True).model()))
    except HeteroError:
        return
    for name, func in sorted((gv.name_hint, func) for gv, func in module.functions_items()):
        if isinstance(func, tvm.tirx.PrimFunc):
            yield name, func


def wild_values(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array in which one of four elements is as far out as its type allows."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("float", "bfloat")):
        tame, far = rng.standard_normal(shape), np.array([np.nan, np.inf, -np.inf, 1e30, -1e30])
        with np.errstate(all="ignore"):
            return _mixed(rng, tame, far).astype(dtype)
    limits = np.iinfo(dtype)
    far = np.array([limits.min, limits.max, limits.min + 1, limits.max // 2], dtype)
    low = max(limits.min, -4)
    return _mixed(rng, rng.integers(low, 5, shape).astype(dtype), far)


def _mixed(rng: np.random.Generator, tame: Any, far: Any) -> np.ndarray[Any, Any]:
    chosen = rng.choice(far, np.shape(tame))
    far_out = rng.random(np.shape(tame)) < rng.choice([0.0, 0.25])
    return np.asarray(np.where(far_out, chosen, tame))


def call_between_walls(func: tvm.tirx.PrimFunc, mcpu: str, seed: int) -> int:
    """Compile a kernel and call it on wild arrays; returns how often it raised an error."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu})
    scheduled = schedule_kernel(func, target).with_attr("global_symbol", "kernel")
    library = tvm.compile(tvm.IRModule({"kernel": scheduled.with_attr("target", target)}), target)
    rng, raised = np.random.default_rng(seed), 0
    for behind in (True, False):
        for _ in range(3):
            walls = GuardedArrays(behind=behind)
            arrays = [
                walls.copy(wild_values(rng, [int(d) for d in p.ty.shape], str(p.ty.dtype)))
                for p in func.params
            ]
            try:
                library["kernel"](*[tvm.runtime.from_dlpack(a) for a in arrays])
            except Exception:
                raised += 1
    return raised


def run_seeds(first: int, count: int, nodes: int) -> None:
    """Call all kernels of some seeds; each is printed before it is called."""
    done: set[int] = set()
    for seed in range(first, first + count):
        for name, func in kernels(seed, nodes):
            key = tvm_ffi.structural_hash(func)
            if key in done:
                continue
            done.add(key)
            for mcpu in TARGETS:
                print(f"seed {seed}, kernel {name}, {mcpu}", flush=True)
                call_between_walls(func, mcpu, seed)
    print("done", flush=True)


def fault(first: int, count: int, nodes: int) -> str | None:
    """Run some seeds in a child process; returns what it was doing if it ended otherwise."""
    command = [sys.executable, "-m", "tvm_hetero.processes.child_main"]  # without PyTorch
    command += ["tests.fuzz.in_bounds", "--child", str(count)]
    command += ["--first", str(first), "--nodes", str(nodes)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (child.stdout.splitlines() or ["nothing yet"])[-1]
    if child.returncode == 0 and last == "done":
        return None
    return f"{last}: ended with {child.returncode}: {child.stderr.strip()[-300:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.child:
        run_seeds(args.first, args.child, args.nodes)
        return 0
    outcomes, faults = Counter[str](), 0
    for seed in islice(seeds(args), 0, None, _AT_ONCE):
        found = fault(seed, _AT_ONCE, args.nodes)
        outcomes["in bounds" if found is None else "fault"] += _AT_ONCE
        if found is not None:
            faults += 1
            print(found, flush=True)
    return conclude(__file__, args.first, outcomes, faults)


if __name__ == "__main__":
    sys.exit(main())
