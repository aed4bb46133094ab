"""The page's scripts in a process of node: a line of JSON goes in, one comes out."""

from __future__ import annotations

import json
import shutil
import subprocess
from types import TracebackType
from typing import Any

import pytest

from tvm_hetero.report.explorer.scripts import CORE, read_scripts

_ANSWER = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { data, document, steps } = JSON.parse(line);
  const problem = readProblem(data);
  let answer;
  if (document) {
    try {
      answer = judgeSchedule(problem, readPlan(problem, document));
    } catch (error) {
      answer = { error: error.message };
    }
  }
  else {
    const order = steps.map(([task, device, elements]) => ({ task, device, elements }));
    const timed = simulate(problem, order);
    answer = { ...timed, value: objectiveValue(problem, timed.executions, timed.copies) };
  }
  console.log(JSON.stringify(answer));
});
"""


class NodeJudge:
    """A process of node with the scripts that count."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not there: apt-get install nodejs")
        text = f'"use strict";\n{read_scripts(CORE)}\n{_ANSWER}'
        self._process = subprocess.Popen(
            [node, "-e", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question: Any) -> Any:
        """The answer to one question."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the script failed; its words are on stderr"
        return json.loads(line)

    def __enter__(self) -> NodeJudge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
