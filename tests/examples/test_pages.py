"""The Python and C++ of README.md and docs/ is run, on a small model and a tiny decoder.

Minutes, so `make fuzz` runs it; `tests/test_page_blocks.py` says who runs which block, and
`tests/examples/test_page_commands.py` types what is typed in a shell.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi.libinfo
from tvm import relax

from tests.cli.invoke import tvm_hetero
from tests.examples.test_page_python import run_block
from tests.small_decoders import tiny
from tests.test_docs import PAGES, blocks
from tests.test_first_ten_minutes import small_model
from tvm_hetero.libinfo import find_include_path

pytestmark = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "fuzz", reason="takes minutes: make fuzz runs it"
)


def test_the_readmes_and_the_usages_python_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small model and a small decoder; names that stand for a reader's own are given."""
    monkeypatch.chdir(tmp_path)
    small_model(Path("model.onnx"))
    picture = np.ones((1, 3, 224, 224), "float32")
    folder = tiny("llama", tmp_path / "decoder", vocab_size=4000)
    done = tvm_hetero("partition", folder, "--quick", "--length", 64, "--batch", 2,
                      "-o", "gpt.hetero")  # fmt: skip
    assert done.status == 0, done.err
    for page in ("README.md", "docs/usage.md"):
        (text,) = blocks(PAGES[page], "python")
        text = text.split("\ntext = th.OpenModel")[0].replace("data_0", "x")
        names: dict[str, Any] = {"x": picture, "images": [picture] * 3, "Path": Path}
        asyncio.run(_run_cell(text.replace("gpu_0/", ""), names))
        assert len(names["out"]) == 1 and names["out"][0].numpy().shape == (1, 8, 1, 1)
        assert {len(each.tokens) for each in names["made"]} == {50}
        for name in ("ex", "decoder"):
            if name in names:
                names[name].close()


async def _run_cell(text: str, names: dict[str, Any]) -> None:
    """Run code that may await at its top, as a notebook does."""
    code = compile(text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        exec(code, names)


def test_the_cpp_of_usage_compiles(tmp_path: Path) -> None:
    include, *body = blocks(PAGES["docs/usage.md"], "cpp")[0].splitlines()
    program = tmp_path / "page.cc"
    program.write_text("\n".join([include, "int main() {", *body, "return outputs.empty();", "}"]))
    folders = [find_include_path(), *tvm_ffi.libinfo.include_paths()]
    done = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", *(f"-I{each}" for each in folders), str(program)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_decoders_python_exports_a_decoder(tmp_path: Path) -> None:
    folder = tiny("llama", tmp_path / "decoder")
    made = run_block("docs/decoders.md", "export_transformers(", FOLDER=folder, LENGTH=8)
    main = made["step"]["main"]
    assert isinstance(main, relax.Function)
    assert len(main.params) > len(made["states"]) > 0
