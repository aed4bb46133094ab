"""All verbs, and what the help says of each; a verb itself is loaded when it is asked for.

Making the options of all verbs, and importing what they import, is most of what ``--help`` would
take. `tests/cli/test_main.py` compares these lines with the verbs' own first ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from tvm_hetero.errors import UsageError

VERBS = {
    "devices": "List the devices of this machine.",
    "partition": "Place a model on devices and compile it.",
    "run": "Run a partitioned model and measure it.",
    "serve": "Serve partitioned models over HTTP.",
    "load-test": "Ask a server by a clock, and print what it did.",
    "adapt": "Compare what policies make of a stream that is disturbed.",
    "cluster": "List and measure the nodes of a cluster.",
    "generate": "Generate tokens.",
    "bench": "Measure a partition against its rivals.",
    "problem": "Write a model's scheduling problem.",
    "record": "Record what blocks take, alone and disturbed.",
    "refine": "Measure what --quick estimated; plan again.",
    "plan": "Plan a decoder on any platform (without TVM).",
    "place-layers": "Place a model's layers on many unlike nodes (without TVM).",
    "power": "Plan a throughput problem under watts (without TVM).",
    "choose": "Choose what to run a model on (without TVM).",
    "share": "Share machines among models over a day (without TVM).",
    "simulate": "Play a service on a plan (without TVM).",
    "schedule": "Solve a scheduling problem (without TVM).",
    "check": "Say whether a schedule is valid.",
    "onnx-check": "List what is in an ONNX file and cannot be imported.",
    "relay-check": "List what of a saved Relay program cannot be imported.",
    "show": "Show a file; of a plan, explain its time too.",
    "solvers": "List the solvers.",
    "tune": "Search for quicker kernels of a model.",
    "zoo": "List problems of the zoo, or write one.",
    "demo": "Partition and measure a real network.",
    "doctor": "Say what of this machine is used, and what to change.",
}


_MOST = 2**63 - 1  # what libraries hold; of a larger integer they speak in words of their own


class Verb(TyperCommand):
    """A verb, whose numbers are some: 'nan' is within all limits that an option may have, and an
    option without a limit has that of 64 bits."""

    def invoke(self, ctx: Any) -> Any:
        """Run it, or refuse what is no number, or none that fits."""
        for parameter in self.params:
            given = ctx.params.get(parameter.name)
            for each in given if isinstance(given, list | tuple) else [given]:
                if isinstance(each, float) and math.isnan(each):
                    raise UsageError(f"{parameter.opts[-1]} {each}: expected a number")
                if isinstance(each, int) and not -_MOST <= each <= _MOST:
                    raise UsageError(f"{parameter.opts[-1]} {each}: expected at most {_MOST}")
        return super().invoke(ctx)


class VerbTable(MutableMapping[str, Any]):
    """A group's commands by name, in the order of the help; each is made when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in VERBS:
                raise KeyError(name)
            self._made[name] = load_verb(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from VERBS

    def __len__(self) -> int:
        return len(VERBS)


def load_verb(name: str) -> Any:
    """The command of a verb: the function of its name in the module of its name."""
    function = name.replace("-", "_")
    module = import_module(f"tvm_hetero.cli.verbs.{function}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Verb)(getattr(module, function))
    return typer.main.get_command(app)
