"""The kernels of a decoding step beside the bandwidth of the memory.

    python -m benchmarks.decode_kernels                 all, writes results/decode_kernels.json
    python -m benchmarks.decode_kernels --kind product  some of them
    python -m benchmarks.decode_kernels --small         seconds (the tests run it)
    python -m benchmarks.decode_kernels --show          writes build/results/performance.md

Products of 1 to 8 rows (sequences that are computed together) with weights of each type, and
attention of one token over a full cache; of chunks of a prompt too, which have arithmetic enough.
One thread, thread CPU time, the least of several readings. A reading calls the kernel with one set
of weights or caches after the other, so that each comes from memory (`SPAN` bytes in all); in turns
with it the core copies as much, by a plain loop in C, bytes read and bytes written counted.

Goal: what reads weights or caches for one token reaches 80 % of what the core copies. With more
rows the arithmetic takes longer than the memory at some point: the table has both figures.

The error is that beside float64 with the values of before they were rounded to their type, the
root mean squares of both: of normally distributed random weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tvm

from benchmarks.decoding.kernel_cases import Case, cases
from benchmarks.decoding.kernels_page import SHARE_GOAL, one_token
from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.kernel_cases.peaks import computing, copying
from benchmarks.results_page import write_pages
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.executor.native import load_library
from tvm_hetero.executor.tensors import copy_lasting
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of

KINDS = ("product", "attention", "chunk")
SPAN, _SMALL_SPAN = 256 << 20, 1 << 20
_READINGS, _SMALL_READINGS = 11, 1


@dataclass(frozen=True)
class Row:
    """One kernel; ``share`` is of what the core copies."""

    kind: str
    where: str
    case: str
    dtype: str
    rows: int
    rule: str
    bytes: float
    us: float
    gbs: float
    copy_gbs: float
    share: float
    gflops: float
    error: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kind", choices=KINDS, help="only these")
    parser.add_argument("--small", action="store_true", help="tiny sizes, no file")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    args = parser.parse_args(arguments)
    if args.show:
        write_pages()
        return []
    target = tvm.target.Target({"kind": "llvm", "mcpu": args.target, "num-cores": 1})
    peak = computing()
    print(f"target {args.target}, one thread, {peak:.0f} GFLOP/s at most\n{_HEAD}")
    rows = []
    for row in _measured(target, args.kind, small=args.small):
        print(_line(row), flush=True)
        rows.append(row)
    print("\n" + "\n".join(summary(rows)))
    if not (args.small or args.kind):
        path = RESULTS / "decode_kernels.json"
        head = {"target": args.target, "span": SPAN, "peak_gflops": peak}
        write_document(path, "python -m benchmarks.decode_kernels", map(asdict, rows), **head)
        print(f"written to {path}")
    return rows


def _measured(target: tvm.target.Target, kind: str | None, *, small: bool) -> Iterator[Row]:
    load_library()  # whose memory is in huge pages, as the copied arrays are
    span, readings = (_SMALL_SPAN, _SMALL_READINGS) if small else (SPAN, _READINGS)
    copy = copying(span)
    for case in cases(target, small=small):
        if kind in (None, case.kind):
            yield measure(case, target, copy, span, readings)


def measure(
    case: Case, target: tvm.target.Target, copy: Callable[[], object], span: int, readings: int
) -> Row:
    """Check one kernel's result, then measure it in turns with copying."""
    kernel = schedule_kernel(case.func, target)
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    function = tvm.runtime.Executable(build(mod, target)).jit()["main"]
    sets = _sets(case, max(1, round(span / case.bytes)))
    function(*sets[0])
    off = sets[0][-1].numpy() - case.expected
    error = float(np.sqrt(np.mean(off**2) / np.mean(case.expected**2)))

    def call_all() -> None:
        for tensors in sets:
            function(*tensors)

    ours = copied = float("inf")
    for _ in range(readings):
        ours, copied = min(ours, _taken(call_all)), min(copied, _taken(copy))
    seconds, copy_gbs = ours / len(sets), span / copied / 1e9
    gbs = case.bytes / seconds / 1e9
    return Row(
        case.kind, case.where, case.name, case.dtype, case.rows, rule_of(kernel), case.bytes,
        seconds * 1e6, gbs, copy_gbs, gbs / copy_gbs, case.flops / seconds / 1e9, error,
    )  # fmt: skip


def _sets(case: Case, count: int) -> list[list[Any]]:
    """The arguments, with what is streamed so many times, where the executor would have it."""
    tensors = [tvm.runtime.tensor(a) for a in case.arguments]
    sets = [list(tensors) for _ in range(count)]
    for arguments in sets:
        for i in case.streamed:
            arguments[i] = copy_lasting(case.arguments[i], tvm.cpu())
    return sets


def _taken(function: Callable[[], object]) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start


_HEAD = (
    f"{'kind':<10}{'case':<52}{'type':<10}{'rows':>4}  {'rule':<10}{'MB':>7}{'us':>10}{'GB/s':>7}"
    f"{'copy':>6}{'share':>7}{'GFLOP/s':>9}{'error':>9}"
)


def _line(row: Row) -> str:
    case = f"{row.case} ({row.where})"
    return (
        f"{row.kind:<10}{case:<52.52}{row.dtype:<10}{row.rows:>4}  {row.rule:<10}"
        f"{row.bytes / 1e6:>7.1f}{row.us:>10.1f}{row.gbs:>7.1f}{row.copy_gbs:>6.1f}"
        f"{100 * row.share:>6.0f}%{row.gflops:>9.1f}{row.error:>9.1e}"
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """For each kind and type the least share that one token reaches."""
    lines = [f"Share of what the core copies, one token (goal: {100 * SHARE_GOAL:.0f} %)"]
    for name, found in one_token([asdict(row) for row in rows]).items():
        least = min(float(row["share"]) for row in found)
        met = "met" if least >= SHARE_GOAL else "not met"
        lines.append(f"{name:<24} least {100 * least:>4.0f} %, {met}")
    return lines


if __name__ == "__main__":
    main()
