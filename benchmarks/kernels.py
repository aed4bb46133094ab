"""Our kernels beside TVM's default, ONNX Runtime and the core's peak, one operator at a time.

    python -m benchmarks.kernels                           all families, writes results/kernels.json
    python -m benchmarks.kernels --family dense,attention  some of them
    python -m benchmarks.kernels --case 56x56 --no-default quickly, what one works on
    python -m benchmarks.kernels --small                   seconds (the tests run it)
    python -m benchmarks.kernels --show                    writes build/results/performance.md

Everything in one process on one thread, thread CPU time, readings in turns, the least counts; what
a call costs each side is measured on the family's tiniest case and subtracted. The peaks are those
of loops in C on the same core (`kernel_cases.peaks`). ONNX Runtime computes convolutions blocked
(NCHWc), so a model of one convolution has its reordering in the time, as a whole network has not:
`benchmarks.models` compares those.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import tvm

from benchmarks.documents import write_document
from benchmarks.kernel_cases import FAMILIES
from benchmarks.kernel_cases.case import Case
from benchmarks.kernel_cases.contest import TOLERANCE, Contest, Overhead, Row
from benchmarks.kernel_cases.peaks import Peaks, measure_peaks
from benchmarks.performance import KERNEL_LEAST, KERNEL_MEAN
from benchmarks.results_page import write_pages
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.devices.target import own_mcpu

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "kernels.json"
_ALL = ",".join(FAMILIES)
_SMALL = 1  # case of a family
_SECONDS, _SMALL_SECONDS = 0.05, 0.004


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows.

    Raises
    ------
    SystemExit
        A kernel's result is wrong; the table is printed before.
    """
    args = _arguments(arguments)
    if args.show:
        write_pages()
        return []
    peaks = measure_peaks()
    print(f"target {args.target}, one thread. {_peaks_line(peaks)}")
    target = tvm.target.Target({"kind": "llvm", "mcpu": args.target, "num-cores": 1})
    contest = Contest(target, peaks, args.seconds, default=not args.no_default)
    rows: list[Row] = []
    overheads: dict[str, Overhead] = {}
    for family in args.family.split(","):
        cases = _chosen(family, args)
        if cases:
            overheads[family] = contest.overhead(FAMILIES[family].tiny())
            rows += _measured(contest, family, cases, overheads[family])
    print("\n" + "\n".join(_summary(rows)))
    if not (args.small or args.case or args.no_default or args.family != _ALL):
        _write(rows, overheads, peaks, args.target)
    wrong = [f"{row.family} {row.case}" for row in rows if row.error > TOLERANCE]
    if wrong:
        raise SystemExit(f"wrong results: {'; '.join(wrong)}")
    return rows


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--family", default=_ALL, help="names with commas between")
    parser.add_argument("--case", default="", help="only cases with this in their name or network")
    parser.add_argument("--small", action="store_true", help="few cases and readings, no file")
    parser.add_argument("--no-default", action="store_true", help="leave TVM's default out")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    parser.add_argument("--seconds", type=float, help="of timing, for each case and side")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.family.split(",")) - set(FAMILIES))
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    args.seconds = args.seconds or (_SMALL_SECONDS if args.small else _SECONDS)
    return args


def _chosen(family: str, args: argparse.Namespace) -> list[Case]:
    """The family's cases that were asked for; with --small those with the least work."""
    cases = [c for c in FAMILIES[family].cases() if args.case in f"{c.name} ({c.where})"]
    return sorted(cases, key=lambda c: c.work)[:_SMALL] if args.small else cases


def _measured(contest: Contest, family: str, cases: list[Case], overhead: Overhead) -> list[Row]:
    """Measure and print."""
    ours, ort = 1e6 * overhead.ours, 1e6 * overhead.ort
    print(f"\n{family}: a call costs us {ours:.1f} us, ONNX Runtime {ort:.1f} us (subtracted)")
    print(_HEAD)
    rows = []
    for row in contest.rows(family, cases, overhead):
        print(_line(row), flush=True)
        rows.append(row)
    gc.collect()  # a family's weights may be a gigabyte
    return rows


_HEAD = (
    f"{'case':<46}{'rule':<16}{'unit':<8}{'ours':>8}{'default':>8}{'ORT':>8}{'peak':>8}"
    f"{'% peak':>7}{'us':>10}{'ORT us':>10}{'ours/ORT':>9}{'error':>8}"
)


def _line(row: Row) -> str:
    default = "" if row.default is None else f"{row.default:.1f}"
    return (
        f"{row.case:<46.46}{row.rule:<16.16}{row.unit:<8}{row.ours:>8.1f}{default:>8}"
        f"{row.ort:>8.1f}{row.peak:>8.1f}{100 * row.ours / row.peak:>7.0f}{row.ours_us:>10.1f}"
        f"{row.ort_us:>10.1f}{row.ratio:>9.2f}{row.error:>8.0e}"
    )


def _peaks_line(peaks: Peaks) -> str:
    sizes = [(1 << 15, "32 KB"), (1 << 19, "512 KB"), (1 << 23, "8 MB"), (1 << 28, "256 MB")]
    copied = ", ".join(f"{peaks.copy[size]:.0f} ({text})" for size, text in sizes)
    read = ", ".join(f"{peaks.read[size]:.0f} ({text})" for size, text in sizes)
    return f"Peaks: {peaks.compute:.0f} GFLOP/s; GB/s copied {copied}; read {read}"


def _summary(rows: Iterable[Row]) -> list[str]:
    """Geometric means of ONNX Runtime's time over ours, by family and over all."""
    by_family: dict[str, list[float]] = {}
    for row in rows:
        by_family.setdefault(row.family, []).append(1 / row.ratio)
    lines = ["ONNX Runtime's time / ours (geometric mean, least, cases below 0.5)"]
    everything = [speed for speeds in by_family.values() for speed in speeds]
    for family, speeds in [*by_family.items(), ("all", everything)]:
        if speeds:
            below = sum(speed < KERNEL_LEAST for speed in speeds)
            lines.append(
                f"{family:<14}{geometric_mean(speeds):>6.2f}{min(speeds):>6.2f}"
                f"{below:>5} of {len(speeds)}"
            )
    lines.append(f"goal: mean at least {KERNEL_MEAN}, none below {KERNEL_LEAST}")
    return lines


def _write(rows: list[Row], overheads: dict[str, Overhead], peaks: Peaks, mcpu: str) -> None:
    calls = {family: {"ours": 1e6 * o.ours, "ort": 1e6 * o.ort} for family, o in overheads.items()}
    write_document(
        RESULTS,
        "python -m benchmarks.kernels",
        map(asdict, rows),
        target=mcpu,
        peak_gflops=peaks.compute,
        peak_copy_gbs=peaks.copy,
        peak_read_gbs=peaks.read,
        call_us=calls,
    )
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
