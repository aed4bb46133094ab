"""How long it takes to load an artifact and run it once, and how much Python that loads.

    python -m benchmarks.loading [--small] [--beside CHECKOUT]    writes results/loading.json

A process of its own for every sample: ``import tvm_hetero as th; ex = th.load(path); ex.run(...)``.
TVM's own start is most of it, so each is measured with TVM whole, and with TVM's small runtime
alone (``TVM_USE_RUNTIME_LIB=1``), which has no compiler; what needs one then does not load.
PyTorch, which tvm-ffi imports where it is installed, is kept away: who runs artifacts has none.

With ``--beside`` another checkout of this repository (an older one, with its libraries built) takes
turns with this one; each loads an artifact of its own build.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("results") / "loading.json"
MODEL = "shufflenet"

_PLATFORM = """
format: tvm-hetero/platform/1
name: two
devices:
  - {name: cpu0, target: {kind: llvm, mcpu: x86-64-v3}, cores: [0], peak_flops: 4.0e+10,
     bandwidth: 10GB/s}
  - {name: cpu1, target: {kind: llvm, mcpu: x86-64-v2}, cores: [1], peak_flops: 2.0e+10,
     bandwidth: 10GB/s}
links:
  - {from: cpu0, to: cpu1, bandwidth: 5GB/s, latency: 2us, both: true}
"""

_BUILD = """
import sys, onnx, tvm_hetero as th
from pathlib import Path
data = Path(onnx.__file__).parent / "backend/test/data/light" / "light_{model}.onnx"
sys.argv = ["tvm-hetero", "partition", str(data), "-o", {path!r}, "--random-weights", "0",
            "--platform", {platform!r}, "--cost-model", "analytical", "--no-measure"]
from tvm_hetero.cli.main import main
sys.exit(main())
"""

_LOAD = """
import json, sys, time
sys.modules["torch"] = None
begin = time.perf_counter()
import tvm_hetero as th
imported = time.perf_counter()
executor = th.load({path!r})
loaded = time.perf_counter()
executor.run(executor.random_inputs())
ended = time.perf_counter()
names = list(sys.modules)
print(json.dumps({{
    "import_s": imported - begin, "load_s": loaded - imported, "run_s": ended - loaded,
    "own_modules": sum(name.split(".")[0] == "tvm_hetero" for name in names),
    "modules": len(names),
}}))
executor.close()
"""


def in_checkout(checkout: Path, code: str, runtime: str = "whole") -> str | None:
    """What code prints that runs in a fresh process with the package of a checkout.

    None if it failed with the small runtime: it needs more than that.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    if runtime == "small":
        environment["TVM_USE_RUNTIME_LIB"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=checkout, capture_output=True, text=True
    )
    if done.returncode == 0:
        return done.stdout
    if runtime == "small":
        return None
    raise SystemExit(f"{checkout}: {done.stderr}")


def measure(checkouts: dict[str, Path], samples: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each checkout and runtime: medians of its samples, which were taken in turns."""
    platform = folder / "platform.yaml"
    platform.write_text(_PLATFORM, encoding="utf-8")
    paths = {name: str(folder / f"{name}.hetero") for name in checkouts}
    for name, checkout in checkouts.items():
        build = _BUILD.format(model=MODEL, path=paths[name], platform=str(platform))
        in_checkout(checkout, build)
    cases = [(name, runtime) for runtime in ("whole", "small") for name in checkouts]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {case: [] for case in cases}
    for _ in range(samples):
        for name, runtime in cases:
            text = in_checkout(checkouts[name], _LOAD.format(path=paths[name]), runtime)
            found[name, runtime] += [] if text is None else [json.loads(text)]
    return [
        {"checkout": name, "runtime": runtime, "samples": len(rows)}
        | {key: statistics.median(row[key] for row in rows) for key in (rows[0] if rows else ())}
        for (name, runtime), rows in found.items()
    ]


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    head = f"{row['checkout']}, TVM {row['runtime']}"
    if not row["samples"]:
        return f"{head}: does not load"
    times = ", ".join(f"{key} {row[f'{key}_s']:.3f} s" for key in ("import", "load", "run"))
    modules = f"{row['own_modules']:.0f} modules of ours, {row['modules']:.0f} in all"
    return f"{head}: {times}; {modules}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two samples; nothing is written")
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turns")
    given = parser.parse_args()
    checkouts = {"this": ROOT}
    if given.beside is not None:
        checkouts = {"before": given.beside.resolve(), **checkouts}
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(checkouts, 2 if given.small else 15, Path(folder))
    print("\n".join(text_of(row) for row in rows))
    if not given.small:
        write_document(RESULTS, f"load {MODEL} and run it once, each in a fresh process", rows)


if __name__ == "__main__":
    main()
