"""Processes of ours load TVM without PyTorch; others find it where they did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvm_hetero.processes.child_process import Worker

NODE = "import tvm_hetero.cluster.node"
COMMAND = "from tvm_hetero.cli.main import main; main()"


def torch_after(code: str, *arguments: str) -> str:
    """What a process that does something has in PyTorch's place afterwards."""
    told = "print(repr(sys.modules.get('torch', 'not there')), file=sys.stderr)"
    code = f"import sys\n{code}\n{told}"
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "arguments", "left"),
    [
        (NODE, (), "'not there'"),
        (COMMAND, ("show", "nothing"), "None"),
        ("from tvm_hetero.cli.main import main; main(['show', 'nothing'])", (), "'not there'"),
    ],
)
def test_processes_of_ours_do_not_load_it(code, arguments, left):
    assert torch_after(code, *arguments) == left


def test_a_child_does_not_load_it_whatever_its_packages_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Those that measure are in a package that loads TVM's interface before their first line."""
    (tmp_path / "a_child.py").write_text(
        "import sys\nimport tvm_hetero.passes\n"
        "from tvm_hetero.processes.child_server import serve\n"
        "if __name__ == '__main__':\n"
        "    found = [name for name in ('tvm_ffi', 'torch') if sys.modules.get(name)]\n"
        "    serve(lambda question: {'found': found, 'arguments': sys.argv[1:]})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker("a_child") as worker:
        assert worker.ask({}, 60) == {"found": ["tvm_ffi"], "arguments": []}


@pytest.mark.parametrize("host_only", [False, True])
def test_a_child_loads_of_tvm_what_it_wants(
    host_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Back ends for accelerators only for who has one; sessions of many machines never."""
    (tmp_path / "a_child.py").write_text(
        "from tvm_hetero.processes.child_server import serve\n"
        "def answer(question):\n"
        "    import tvm\n"
        "    extra = 'tvm_runtime_extra' in tvm.base._LOADED_LIBS\n"
        "    return {'extra': extra, 'disco': repr(tvm.runtime.disco)}\n"
        "if __name__ == '__main__':\n    serve(answer)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker("a_child", host_only=host_only) as worker:
        assert worker.ask({}, 60) == {"extra": not host_only, "disco": "None"}


def test_what_is_loaded_stays():
    """Behind it, nobody is in the way of who wants it."""
    code = (
        "sys.modules['torch'] = mine = object()\n"
        "from tvm_hetero.processes.torch_import import hide_torch, without_torch\n"
        "with without_torch():\n    assert sys.modules['torch'] is mine\n"
        "hide_torch()\nassert sys.modules['torch'] is mine\n"
        "del sys.modules['torch']\n"
        "with without_torch():\n"
        "    try:\n        import torch\n        raise SystemExit('found it')\n"
        "    except ImportError:\n        pass"
    )
    assert torch_after(code) == "'not there'"
