"""Install a wheel's extras one by one, each beside the wheel alone, and use what it is there for.

    python tests/try_extras.py dist/tvm_hetero-0.1.0-py3-none-manylinux_2_34_x86_64.whl
    python tests/try_extras.py dist/*.whl --only gurobi text

Before, what an extra is for is asked for without it: our answer has to name the extra. `test` is
what `make test` installs, `build` what `make demo` does. PyTorch may come from an index of its own:
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

_LIMIT = 1800.0
_SETTINGS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TVM_HETERO_CACHE")
_EVERY_MODULE = """
import importlib, pkgutil
package = importlib.import_module("{name}")
for module in pkgutil.walk_packages(package.__path__, "{name}."):
    importlib.import_module(module.name)
"""


@dataclass(frozen=True)
class Probe:
    """A script that works with an extra, and whether we ourselves notice that it is not there."""

    script: str
    is_asked_for: bool = True


PROBES = {
    "onnxruntime": Probe("""
import numpy, onnx
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.frontends.onnx import light_models
model = onnx.load(light_models()["squeezenet"])
names = [each.name for each in model.graph.input if each.name not in
         {one.name for one in model.graph.initializer}]
image = numpy.zeros((1, 3, 224, 224), numpy.float32)
assert OnnxRuntime(model, 1).outputs(dict.fromkeys(names, image))[0].size == 1000
"""),
    "gurobi": Probe("""
from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.solvers import Options, solve
problem = zoo.problem("light-squeezenet", "big-little")
found = solve(problem, "milp", Options(time_limit=5, backend="gurobi"))
assert check_schedule(problem, found) == []
"""),
    "ray": Probe("""
from tvm_hetero.cluster.transport.ray_import import import_ray
ray = import_ray()
ray.init(num_cpus=1, include_dashboard=False)
assert ray.get(ray.remote(lambda: 6 * 7).remote()) == 42
ray.shutdown()
""" + _EVERY_MODULE.format(name="tvm_hetero.cluster")),
    "rpc": Probe("""
import tvm.exec.rpc_tracker
from tvm import rpc
server = rpc.Server(host="127.0.0.1", port=9090, port_end=9990)
assert rpc.connect("127.0.0.1", server.port).cpu(0).exist
server.terminate()
""", is_asked_for=False),  # of TVM's own programs, on the board
    "torch": Probe("""
import torch
from tvm_hetero.frontends.torch.export import from_exported

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11)
        self.eval().requires_grad_(False)

    def forward(self, token, position, cache):
        found = cache.index_copy(0, position, self.table(token))
        return self.head(found.sum(0, keepdim=True)), found

given = (torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), torch.zeros(6, 8))
assert from_exported(torch.export.export(Decoder(), given), states={"cache": 1})["main"]
""", is_asked_for=False),  # whoever has a program of torch.export has PyTorch
    "text": Probe("""
import json
from pathlib import Path
from tokenizers import Tokenizer, models
from tvm_hetero.cli.shared.tokenizer import tokenizer_of
words = models.WordLevel({"yes": 0, "no": 1}, unk_token="no")
Tokenizer(words).save("tokenizer.json")
assert tokenizer_of(Path("."), {}).encode("yes") == [0]
"""),
    "serve": Probe(_EVERY_MODULE.format(name="tvm_hetero.serve")),
    "otel": Probe("""
from tvm_hetero.serve.traces.spans import otlp_exporter
otlp_exporter("http://localhost:4318/v1/traces").shutdown()
"""),
}  # fmt: skip
# Without it, where the script begins with the extra's own package: a call that ends with our words.
WITHOUT = {
    "text": """
from pathlib import Path
from tvm_hetero.cli.shared.tokenizer import tokenizer_of
tokenizer_of(Path("."), {})
""",
    "serve": """
import sys
from tvm_hetero.cli.main import main
sys.exit(main(["serve", "nothing.hetero"]))
""",
}


def main() -> int:
    """Try the extras that the command line names, or all."""
    parser = argparse.ArgumentParser(description="Try a wheel's extras, one by one.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", nargs="+", choices=PROBES, default=list(PROBES))
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-extras-") as name:
        # Elsewhere than where scripts run: a folder `torch` there would be a package of that name.
        environments, folder = Path(name) / "environments", Path(name) / "work"
        folder.mkdir()
        base = _environment(environments / "base")
        _run(base, folder, "-m", "pip", "install", "--quiet", "--no-compile", str(wheel))
        for extra in given.only:
            if PROBES[extra].is_asked_for:
                _is_named(base, folder, extra)
            own = _environment(environments / extra, beside=base)
            install = ("-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}[{extra}]")
            _run(own, folder, *install)
            _run(own, folder, "-c", PROBES[extra].script)
            print(f"{extra}: works", flush=True)
    return 0


def _environment(folder: Path, beside: Path | None = None) -> Path:
    """The Python of a new environment, which sees the packages of another one, too."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    if beside is not None:
        (packages,) = beside.parents[1].glob("lib/python*/site-packages")
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "beside.pth").write_text(f"{packages}\n", encoding="utf-8")
    return python


def _is_named(python: Path, folder: Path, extra: str) -> None:
    """Without the extra somebody is told of it."""
    script = WITHOUT.get(extra, PROBES[extra].script)
    done = _call(python, folder, "-c", script)
    named = f"pip install 'tvm_hetero[{extra}]'"
    if done.returncode == 0 or named not in done.stderr:
        sys.exit(f"{extra}: without it, expected a fault that says {named}\n{done.stderr[-2000:]}")


def _run(python: Path, folder: Path, *arguments: str) -> None:
    done = _call(python, folder, *arguments)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: status {done.returncode}\n{done.stderr[-3000:]}")


def _call(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    kept["TVM_HETERO_CACHE"] = str(folder / "cache")
    return subprocess.run(
        [str(python), *arguments], cwd=folder, env=kept, capture_output=True, text=True,
        timeout=_LIMIT,
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
