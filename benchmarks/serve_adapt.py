"""A server with `--adapt` on unlike cores, one of which another program wants: what it switches.

    python -m benchmarks.serve_adapt             writes results/serve_adapt.json; three minutes
    python -m benchmarks.serve_adapt --cores 0 --only with       the others are kept as they are
    python -m benchmarks.serve_adapt --small     a tiny model, a moment each, with it alone, no file
    python -m benchmarks.serve_adapt --model inception_v1 --seconds 20 --output FILE

The cores are x86-64-v2 (0) and native (1). ``tvm-hetero serve`` is a process of its own; clients
send queries of many elements, one after the other, over HTTP: they share the cores with it, in the
same way in all rows. It is quiet, then a program of two busy loops is pinned to one core, then it
is quiet again; once without `--adapt` and once with it. Elements/s of what was answered, of the
disturbed and the last time their second halves, when policies have settled; switches are those that
the server tells on its page. The results have rows that were measured one by one.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adapted import make_plan
from benchmarks.documents import dated, write_document
from benchmarks.execution.argument_types import duration, output_file
from benchmarks.execution.cases import TINY
from benchmarks.parts import table
from benchmarks.result_rows import read_rows
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.executor.executor import Executor
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes.disturbers import disturb

RESULTS = Path(__file__).with_name("results") / "serve_adapt.json"
GOAL = "at least one switch; more than without"
_CLIENTS = 2
_ITEMS = 32
_LOOPS = 2
_WITH, _WITHOUT = "with", "without"


@dataclass(frozen=True)
class Row:
    """Elements/s; `told` are the sentences of interference and switches, the oldest first."""

    model: str
    core: int
    adapt: bool
    quiet: float
    disturbed: float
    after: float
    switches: int
    told: tuple[str, ...]


class Senders:
    """Threads that ask for whole queries, one after the other, and note when each has ended."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._ends: list[float] = []
        self._stop = threading.Event()
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._send) for _ in range(_CLIENTS)]

    def _send(self) -> None:
        try:
            while not self._stop.is_set():
                self._ask()
                self._ends.append(time.monotonic())
        except Exception as error:  # told by whoever waits for the threads
            self._errors.append(error)

    def rate(self, begin: float, end: float) -> float:
        """Elements/s between the first and the last query that ended in a time; 0: fewer than two.

        Over the whole time it would be wrong by a query more or less, which is a twentieth of it.
        """
        within = [t for t in self._ends if begin <= t < end]
        span = max(within, default=0.0) - min(within, default=0.0)
        return _ITEMS * (len(within) - 1) / span if span > 0 else 0.0

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


def measure(artifact: Path, model: str, body: bytes, core: int, adapt: bool, seconds: float) -> Row:
    """One server: quiet, disturbed, quiet, for so many seconds each."""
    with ExitStack() as stack:
        options = ["--adapt"] if adapt else []
        server = stack.enter_context(soaked_server([f"{model}={artifact}", *options]))
        senders = stack.enter_context(Senders(lambda: server.send_raw(model, body)))
        time.sleep(seconds / 2)  # the first queries make what the others find
        begun = time.monotonic()
        time.sleep(seconds)
        quiet = senders.rate(begun, time.monotonic())
        with ExitStack() as program:
            for _ in range(_LOOPS):
                place = sorted(available_cores())[core]
                program.enter_context(disturb("busy", place, 4 * seconds + 60))
            time.sleep(seconds)
            middle = time.monotonic()
            time.sleep(seconds)
            disturbed = senders.rate(middle, time.monotonic())
        time.sleep(seconds)
        middle = time.monotonic()
        time.sleep(seconds)
        after = senders.rate(middle, time.monotonic())
        told = _told(server)
    switches = sum(text.startswith("switch") and "; now " in text for text in told)
    return Row(model, core, adapt, quiet, disturbed, after, switches, told)


def _told(server: SoakedServer) -> tuple[str, ...]:
    events = server.fetch("/page/state.json")["events"]
    return tuple(f"{each['kind']}: {each['text']}" for each in reversed(events))


def report(rows: Sequence[Row]) -> str:
    """The table, and what was told."""
    heads = ["elements/s", "goal", "paper", "quiet", "disturbed", "after", "switches"]
    lines = [
        [f"{row.model}, busy on {row.core}, {'--adapt' if row.adapt else 'without'}",
         GOAL if row.adapt else "-", "-", f"{row.quiet:.1f}", f"{row.disturbed:.1f}",
         f"{row.after:.1f}", str(row.switches)]
        for row in rows
    ]  # fmt: skip
    told = (f"  {text}" for row in rows for text in row.told)
    return "\n".join([table(heads, lines), *told])


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    asked = _asked(arguments)
    seconds = 0.2 if asked.small else asked.seconds
    output = asked.output or (None if asked.small else RESULTS)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home:
        artifact, body = _prepare(asked.model, Path(home), 1.0 if asked.small else 10.0)
        for core, adapt in product(asked.cores, asked.adapt):
            rows.append(measure(artifact, asked.model, body, core, adapt, seconds))
            if output is not None:
                write_document(output, "python -m benchmarks.serve_adapt", _merged(output, rows))
    print(report(rows))
    return rows


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, no file")
    parser.add_argument("--model", default="squeezenet")
    parser.add_argument("--cores", type=int, nargs="+", choices=(0, 1), default=(0, 1))
    parser.add_argument("--only", choices=(_WITH, _WITHOUT), help="--adapt, or without it")
    parser.add_argument("--seconds", type=duration, default=6.0)
    parser.add_argument("--output", type=output_file, help=f"default: {RESULTS}")
    asked = parser.parse_args(arguments)
    asked.adapt = (False, True) if asked.only is None else (asked.only == _WITH,)
    if asked.small:
        asked.model, asked.cores, asked.adapt = TINY, (1,), (True,)
    return asked


def _prepare(model: str, home: Path, limit: float) -> tuple[Path, bytes]:
    """The artifact, and what a client sends."""
    executable = make_plan(model, "unlike", limit).executable
    artifact = home / f"{model}.hetero"
    executable.save(artifact)
    with Executor(executable) as executor:
        (info,) = executor.inputs
    draw = np.random.default_rng(0)
    values = draw.standard_normal((_ITEMS, *info.shape[1:])).astype(info.dtype)
    return artifact, values.tobytes()


def _merged(output: Path, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """These rows, and those of other questions that were measured before."""
    made = (dated(asdict(row)) for row in rows)
    found = {_question(row): row for row in (*read_rows(output), *made)}
    return [found[key] for key in sorted(found)]


def _question(row: Mapping[str, Any]) -> tuple[str, int, bool]:
    return row["model"], row["core"], row["adapt"]


if __name__ == "__main__":
    main()
