"""The chat on two machines: the README's commands, in order, on two nodes of this machine.

The client alone is tried in `tests/serve/openai/test_chat.py`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.page_commands import (
    as_installed,
    commands_of,
    free_port,
    run_in_one_shell,
    with_port,
)
from tests.serve.small_tokenizer import VOCABULARY, write_texts
from tests.small_decoders import tiny
from tvm_hetero.cluster.description import read_description

FOLDER = Path(__file__).parents[2] / "examples" / "chat_on_two_machines"
LIMIT = 300.0


def test_the_file_of_nodes_names_two_machines_that_share_no_core():
    nodes = read_description(FOLDER / "nodes.yaml").nodes
    assert [node.name for node in nodes] == ["left", "right"]
    cores = [set(node.cores or ()) for node in nodes]
    assert all(cores) and not cores[0] & cores[1]


@pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "fuzz", reason="takes half a minute: make fuzz runs it"
)
def test_the_readmes_commands_in_order(tmp_path: Path):
    work = tmp_path / "work"
    shutil.copytree(FOLDER, work)
    model = tiny("llama", work / "model", vocab_size=VOCABULARY, eos_token_id=1)
    write_texts(model)
    port = free_port()
    shorter = {"FOLDER": "model", "--length 2048": "--length 64", "--batch 8": "--batch 2",
               "--say": f"--url http://localhost:{port} --most 8 --say"}  # fmt: skip
    typed = []
    for each in commands_of((FOLDER / "README.md").read_text(encoding="utf-8")):
        text = with_port(each.text, port)
        for found, instead in shorter.items():
            text = text.replace(found, instead)
        if not text.startswith("pip "):
            typed.append(text)
    told = run_in_one_shell(typed, work, as_installed(tmp_path / "bin"), LIMIT)
    surveyed, partitioned, shown, _, said, _ = told
    assert "left" in surveyed and "right" in surveyed
    assert "wrote chat.hetero" in partitioned and "wrote plan.html" in shown
    assert said.strip()
