"""Processes of ours load TVM without PyTorch; others find it where they did."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
