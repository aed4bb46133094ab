"""Modules that name our operations can be read where nothing else of ours was loaded."""

from __future__ import annotations

import subprocess
import sys

import tvm

from tests.kernels.helpers import ZEN4, model
from tests.kernels.test_narrow_kernel import CASES, narrowed
from tvm_hetero.compiler.module_text import module_text


def test_a_module_in_bfloat16_is_read_by_another_process(tmp_path) -> None:
    shape, body, _ = CASES["one row"]
    path = tmp_path / "module.json"
    path.write_text(module_text(narrowed(model([shape], body), ZEN4)))
    program = (
        "import sys, numpy\n"
        "sys.modules['torch'] = None\n"  # it takes longer to load than all the rest
        "from tvm_hetero.compiler.module_text import module_from_text\n"
        "weights = {'0.dense_bfloat16/1': numpy.zeros((1, 1, 17, 48), 'int32')}\n"
        "print(module_from_text(open(sys.argv[1]).read(), weights))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert "tvm_hetero.bfloat16_pair" in found.stdout, found.stderr
    assert tvm.ir.Op.get("tvm_hetero.bfloat16_pair").name == "tvm_hetero.bfloat16_pair"
