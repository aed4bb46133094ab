"""Ten minutes of eight threads that ask one executor for everything at once, cancel and hurry.

    python -m benchmarks.soak                      600 s, writes results/soak.json
    python -m benchmarks.soak --seconds 60 --output FILE
    python -m benchmarks.soak --small              2 s of a tiny model (the tests run it)
    python -m benchmarks.soak --teams              on teams of cores, writes results/soak_teams.json
    python -m benchmarks.soak --switch             with a switch of plans every 100 ms
    python -m benchmarks.soak --show               writes build/results/performance.md

SqueezeNet as a pipeline of two devices, or for latency on each core and both. What the threads do,
and how they check it, stands in `benchmarks.execution.callers`. Every few seconds the main thread
notes resident memory, threads and allocated tensors; now and then it lets all of them pause and
notes what of the memory is in use. A warm-up goes before it, in which buffers reach their size. It
must hold that

- each request is done, cancelled or late: none is lost, no output is wrong or out of order;
- no tensor is allocated after the warm-up, however many are in flight;
- what is in use is the same after each request: of the heap less than a byte is left behind on
  average, of Python's blocks less than a hundredth (last third against first, over the requests
  between). Why resident memory creeps all the same stands in `benchmarks.execution.usage`;
- with ``--switch``: outputs are bit for bit those of the first plan, whichever plan they are of
  (a plan that begins has buffers of its own, so tensors are allocated then, and threads come and
  go);
- resident memory is nearly flat (last third against first), and the number of threads is flat
  (medians: importing ONNX Runtime 1.31 makes it start threads of its own for milliseconds).
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.documents import write_document
from benchmarks.execution.callers import COUNTS, Caller, at_rest
from benchmarks.execution.cases import TINY, make_model, two_core_teams, two_devices, with_links
from benchmarks.execution.contenders import build_plan
from benchmarks.execution.page import GROWTH, LEFT_BLOCKS, LEFT_BYTES
from benchmarks.execution.switching import Switching
from benchmarks.execution.usage import in_use, resident_bytes, start_exactly, thread_count
from benchmarks.results_page import write_pages
from tvm_hetero.artifact.executable import PARTITION, Executable
from tvm_hetero.executor.executor import Executor
from tvm_hetero.problem import Objective

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "soak.json"
CALLERS, INPUTS = 8, 16
# Of the samples every tenth is also one of all at rest.
_SAMPLES, _REST, _LIMIT = 120, 10, 5.0


@dataclass(frozen=True)
class Sample:
    """The process after so many seconds; `finished` counts requests that have ended."""

    seconds: float
    rss_bytes: int
    threads: int
    allocations: int
    finished: int


@dataclass(frozen=True)
class Rest:
    """What was in use when `finished` requests had ended and none was in flight."""

    finished: int
    heap_bytes: int
    python_blocks: int


@dataclass(frozen=True)
class Soak:
    """What came of it.

    ``growth`` is the share by which resident memory grew, ``heap_growth`` and ``block_growth`` what
    a request has left behind on average (bytes in use, blocks of Python's), ``more_threads`` by how
    many threads there were more at the end, ``allocations`` counts tensors after the warm-up,
    ``switches`` those of the plan.
    """

    samples: list[Sample]
    rests: list[Rest]
    counts: dict[str, int]
    submitted: int
    wrong: int
    lost: int
    growth: float
    heap_growth: float
    block_growth: float
    more_threads: float
    allocations: int
    errors: list[str]
    switches: int = 0


def main(arguments: Sequence[str] | None = None) -> Soak:
    """Measure, print and write; what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, 2 s, no file")
    parser.add_argument("--seconds", type=float, help="how long (default: 600, small: 2)")
    parser.add_argument("--model", help="default: squeezenet")
    parser.add_argument("--teams", action="store_true", help="a latency plan on teams of cores")
    parser.add_argument("--switch", action="store_true", help="switch plans every 100 ms")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    args = parser.parse_args(arguments)
    if args.show:
        write_pages()
        return Soak([], [], {}, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, [])
    model = args.model or (TINY if args.small else "squeezenet")
    seconds = args.seconds or (2.0 if args.small else 600.0)
    platform = two_core_teams() if args.teams else two_devices()
    objective = Objective("latency" if args.teams else "throughput")
    built = build_plan(
        make_model(model),
        with_links(platform, small=args.small),
        objective,
        _LIMIT,
        adaptable=args.switch,
    )
    with Executor(built.executable, PARTITION) as executor:
        if args.switch:
            found = _soak_switching(executor, built.executable, seconds)
        else:
            found = soak(executor, seconds)
    print(summary(found, seconds))
    kind = "_teams" if args.teams else "_switch" if args.switch else ""
    results = RESULTS.with_name(f"soak{kind}.json")
    output = args.output or (None if args.small or args.seconds else results)
    if output is not None:
        head = {key: value for key, value in asdict(found).items() if key != "samples"}
        write_document(output, "python -m benchmarks.soak", map(asdict, found.samples), **head,
                       model=model, seconds=seconds, callers=CALLERS,
                       target=dict(platform.devices[0].target or {}))  # fmt: skip
        print(f"written to {output}")
    return found


def soak(
    executor: Executor, seconds: float, beside: AbstractContextManager[object] | None = None
) -> Soak:
    """Warm up for a tenth of the time, let the callers loose `beside` something, and count."""
    inputs = [executor.random_inputs(seed) for seed in range(INPUTS)]
    expected = [[np.array(out.numpy()) for out in executor.run(given)] for given in inputs]
    latency = statistics.median(executor.benchmark(inputs[0], repeat=20))
    _fill_pools(executor, inputs)
    callers = [Caller(executor, inputs, expected, latency, seed) for seed in range(CALLERS)]
    with beside or nullcontext():
        for caller in callers:
            caller.start()
        time.sleep(seconds / 10)
        samples, rests = _watch(executor, callers, seconds)
        for caller in callers:
            caller.end()
        for caller in callers:
            caller.join(timeout=120.0)
    return _settled(callers, samples, rests)


def _soak_switching(executor: Executor, executable: Executable, seconds: float) -> Soak:
    switching = Switching(executor, executable)
    found = soak(executor, seconds, switching)
    errors = [*found.errors, *([f"switching: {switching.error!r}"] if switching.error else [])]
    return replace(found, switches=switching.switches, errors=errors)


def _fill_pools(executor: Executor, inputs: Sequence[dict[str, np.ndarray]]) -> None:
    """Hold as many outputs at once as the callers ever can: one each, maps a pipeline's."""
    most = CALLERS * (executor.depth + 2)
    held = [executor.submit(inputs[i % INPUTS]) for i in range(most)]
    for pending in held:
        pending.result()


def _watch(
    executor: Executor, callers: Sequence[Caller], seconds: float
) -> tuple[list[Sample], list[Rest]]:
    """Samples at equal distances; ends early if all callers have."""
    # Arrays that are there beforehand: what is noted must not count as left behind.
    samples, rests = np.zeros((_SAMPLES + 1, 5)), np.zeros((_SAMPLES // _REST + 1, 3))
    rested = 0
    gc.collect()
    gc.freeze()  # what is there now stays: looking through it would take a second each time
    start = time.perf_counter()
    for i in range(_SAMPLES + 1):
        time.sleep(max(0.0, start + i * seconds / _SAMPLES - time.perf_counter()))
        held = resident_bytes(), thread_count(), executor.allocations
        samples[i] = time.perf_counter() - start, *held, _ended(callers)
        if not any(caller.is_alive() for caller in callers):
            break
        if i % _REST == 0:
            with at_rest(callers):
                rests[rested] = _ended(callers), *in_use()
                rested += 1
    gc.unfreeze()
    return (
        [Sample(row[0], *map(int, row[1:])) for row in samples[: i + 1].tolist()],
        [Rest(*map(int, row)) for row in rests[:rested].tolist()],
    )


def _ended(callers: Sequence[Caller]) -> int:
    return sum(caller.requests for caller in callers)


def _settled(callers: Sequence[Caller], samples: list[Sample], rests: list[Rest]) -> Soak:
    """All books together; a request of which no book tells is lost."""
    books: Counter[str] = sum((caller.counts for caller in callers), Counter())
    counts = {what: books[what] for what in COUNTS}
    third = max(1, len(samples) // 3)
    first, last = samples[:third], samples[-third:]
    memory = [statistics.mean(sample.rss_bytes for sample in part) for part in (first, last)]
    threads = [statistics.median(sample.threads for sample in part) for part in (first, last)]
    errors = [f"{caller.name}: {caller.error!r}" for caller in callers if caller.error]
    errors += [f"{caller.name} still waits" for caller in callers if caller.is_alive()]
    return Soak(
        samples=samples,
        rests=rests,
        counts=counts,
        submitted=books["submitted"],
        wrong=books["wrong"],
        lost=books["submitted"] - sum(counts.values()) - books["wrong"],
        growth=memory[1] / memory[0] - 1,
        heap_growth=growth_per_request([(rest.finished, rest.heap_bytes) for rest in rests]),
        block_growth=growth_per_request([(rest.finished, rest.python_blocks) for rest in rests]),
        more_threads=threads[1] - threads[0],
        allocations=samples[-1].allocations - samples[0].allocations,
        errors=errors,
    )


def growth_per_request(rests: Sequence[tuple[int, int]]) -> float:
    """By how much something grew from the first third to the last, for each request between them.

    `rests` are (requests that had ended, how much there was then).
    """
    third = max(1, len(rests) // 3)
    (before, less), (after, more) = (
        (statistics.mean(r[0] for r in part), statistics.mean(r[1] for r in part))
        for part in (rests[:third], rests[-third:])
    )
    return (more - less) / max(1.0, after - before)


def summary(found: Soak, seconds: float) -> str:
    """What must hold, beside what does."""
    threads = statistics.median(sample.threads for sample in found.samples)
    counts = ", ".join(f"{count} {what}" for what, count in found.counts.items())
    memory = [sample.rss_bytes / 2**20 for sample in found.samples]
    lines = [
        f"{found.submitted} requests of {CALLERS} threads in {seconds:g} s: {counts}",
        f"wrong or out of order: {found.wrong}, lost: {found.lost} (goal 0 and 0)",
        f"left behind by a request: {found.heap_growth:+.2f} bytes (goal {LEFT_BYTES:g}), "
        f"{found.block_growth:+.4f} blocks of Python's (goal {LEFT_BLOCKS:g})",
        f"resident memory {min(memory):.1f} to {max(memory):.1f} MiB, growth "
        f"{100 * found.growth:+.2f} % (goal {100 * GROWTH:g} %)",
        f"tensors allocated after the warm-up: {found.allocations} (goal 0); threads: {threads:g}, "
        f"{found.more_threads:+g} at the end (goal 0)",
    ]
    if found.switches:
        lines.append(f"{found.switches} switches of the plan")
    return "\n".join([*lines, *found.errors])


if __name__ == "__main__":
    start_exactly("benchmarks.soak")
    main()
