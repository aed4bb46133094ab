"""A server with `--adapt` on unlike cores, one of which another program wants: what it switches.

    python -m benchmarks.serve_adapt             writes results/serve_adapt.json; three minutes
    python -m benchmarks.serve_adapt --small     a tiny model, a moment each, with it alone, no file
    python -m benchmarks.serve_adapt --model inception_v1 --core 0 --seconds 20 --output FILE

The cores are x86-64-v2 (0) and native (1). ``tvm-hetero serve`` is a process of its own; clients
send queries of many elements, one after the other, over HTTP: they share the cores with it, in the
same way in all rows. It is quiet, then a busy loop is pinned to one core, then it is quiet again;
once without `--adapt` and once with it. Elements/s of what was answered, of the disturbed time its
second half, when policies have settled; switches are those that the server tells on its page.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.adapted import make_plan
from benchmarks.documents import write_document
from benchmarks.execution.argument_types import output_file
from benchmarks.execution.cases import TINY
from benchmarks.parts import table
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.executor.executor import Executor
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes.disturbers import disturb

RESULTS = Path(__file__).with_name("results") / "serve_adapt.json"
GOAL = "at least one switch; more than without"
_CLIENTS = 2
_ITEMS = 32


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
        """Elements/s of queries that ended in a time."""
        return _ITEMS * sum(begin <= t < end for t in self._ends) / (end - begin)

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
        with disturb("busy", sorted(available_cores())[core], 4 * seconds + 60):
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, no file")
    parser.add_argument("--model", default="squeezenet")
    parser.add_argument("--core", type=int, choices=(0, 1), default=1)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--output", type=output_file, help=f"default: {RESULTS}")
    given = parser.parse_args(arguments)
    model, seconds = (TINY, 0.2) if given.small else (given.model, given.seconds)
    with tempfile.TemporaryDirectory() as home:
        executable = make_plan(model, "unlike", 1.0 if given.small else 40.0).executable
        artifact = Path(home) / f"{model}.hetero"
        executable.save(artifact)
        with Executor(executable) as executor:
            (info,) = executor.inputs
        draw = np.random.default_rng(0)
        body = draw.standard_normal((_ITEMS, *info.shape[1:])).astype(info.dtype).tobytes()
        rows = [
            measure(artifact, model, body, given.core, adapt, seconds)
            for adapt in ((True,) if given.small else (False, True))
        ]
    print(report(rows))
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        write_document(output, "python -m benchmarks.serve_adapt", map(asdict, rows))
    return rows


if __name__ == "__main__":
    main()
