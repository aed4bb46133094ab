"""Whether the program does the same before and after: what it makes, byte for byte.

    python -m benchmarks.replay --write FILE [--small] [--texts DIR]
    python -m benchmarks.replay --compare FILE [--small] [--texts DIR] [--only WORD]

A refactoring is proven by equal output. This writes down what the package makes of fixed inputs,
each text by a name, as SHA-256 (JSON, sorted). ``--compare`` makes everything again, prints each
name whose text is another one (or is missing, or new), and exits with 1 if there is any.
``--texts DIR`` writes the texts themselves as files, so that two runs can be looked at with
``diff -r``; ``--only WORD`` takes networks and models with that word in their names alone.

================================  ==============================================================
name                              text
================================  ==============================================================
schedule/NET/PLATFORM/GOAL/...    a solver's answer to a problem of the zoo, or its refusal
bound/NET/PLATFORM/GOAL           each rung of the ladder of lower bounds
imported/MODEL                    the module that a front end gives
lowered/MODEL                     the same as kernels, without weights
weights/MODEL                     shape, type and SHA-256 of each constant of it (not ``--small``)
placed/MODEL/PLACEMENT            the module after `partition`
plan/MODEL/PLACEMENT              the executor's plan of that
kernel/MODEL/TARGET/KERNEL        each scheduled kernel (TIR)
build/MODEL/...                   plans and choices of a whole build (not ``--small``)
================================  ==============================================================

Nothing is measured: costs come from a table (`benchmarks.replayed.places`), searches count their
work, and the clock that would cut them is set to hours. Targets, cores and seeds are given, the
cache of measured costs is an empty one. No text has a path, a version, or the time in it.

The whole takes minutes on two cores, and its floats are those of the machine: compare runs of one
machine. ``--small`` takes half a minute and has in it only what is the same on every machine;
`tests/benchmarks/test_replay.py` compares it with ``tests/data/replay.json``. Where a change of
what is made is meant, look at the texts of both sides, then write that file anew, and say in the
commit why:

    python -m benchmarks.replay --small --texts before      (on the commit before)
    python -m benchmarks.replay --small --texts after       (and diff -r before after)
    python -m benchmarks.replay --small --write tests/data/replay.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.replayed import jobs

Texts = Iterable[tuple[str, str]]
Job = Callable[[], Texts]
# What hangs on the machine or on its user: threads of BLAS, measured costs, compiled kernels.
_SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_WORKERS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Make everything, write or compare it; the exit code."""
    args = _parser().parse_args(arguments)
    # Before minutes of work, not after.
    before = None if args.compare is None else read(args.compare)
    began = time.monotonic()
    after = replay(small=args.small, only=args.only, texts=args.texts)
    print(f"{len(after)} texts in {time.monotonic() - began:.0f} s")
    if args.write is not None:
        write(args.write, after)
    if before is None:
        return 0
    return report({name: row for name, row in before.items() if args.only in _of(name)}, after)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", type=Path, metavar="FILE", help="write SHA-256 by name")
    what.add_argument("--compare", type=Path, metavar="FILE", help="print what differs from it")
    parser.add_argument("--small", action="store_true", help="what is the same on every machine")
    parser.add_argument("--only", default="", metavar="WORD", help="networks and models with it")
    parser.add_argument("--texts", type=Path, metavar="DIR", help="write the texts, too")
    return parser


def _of(name: str) -> str:
    """The network or model that a text is of."""
    return name.split("/")[1]


def replay(*, small: bool, only: str = "", texts: Path | None = None) -> dict[str, str]:
    """Make everything: SHA-256 by name, sorted.

    Parameters
    ----------
    small : only what is the same on every machine, in this process.
    only : a part of the names of networks and models that are wanted.
    texts : a folder for the texts themselves.

    Raises
    ------
    ValueError
        If two texts have one name.
    """
    found: dict[str, str] = {}
    wanted = [job for job in jobs.all_jobs(small=small) if only in jobs.name_of(job)]
    work = [partial(digests, job, texts) for job in wanted]
    with _own_settings():
        for made in map(_call, work) if small else _in_processes(work):
            add(found, made)
    return dict(sorted(found.items()))


def add(found: dict[str, str], made: Mapping[str, str]) -> None:
    """Add what was made to what was found.

    Raises
    ------
    ValueError
        If two texts have one name.
    """
    twice = sorted(found.keys() & made.keys())
    if twice:
        raise ValueError(f"two texts are named {twice[0]!r}: one would hide the other")
    found |= made


def digests(job: Job, folder: Path | None) -> dict[str, str]:
    """The texts of one job by SHA-256, and as files if there is a folder for them."""
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of solvers that fail: the answers say so, too
        for name, text in job():
            data = text.encode()
            add(found, {name: hashlib.sha256(data).hexdigest()})
            if folder is not None:
                path = folder / f"{name}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    return found


def _call(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    return work()


def _in_processes(work: Sequence[Callable[[], dict[str, str]]]) -> Iterator[dict[str, str]]:
    # Not forked: a child has its own TVM, and its own order of hashes.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_WORKERS, fresh) as pool:
        yield from pool.map(_call, work)


@contextmanager
def _own_settings() -> Iterator[None]:
    """An empty cache and one thread, for this process's children as well."""
    with tempfile.TemporaryDirectory(prefix="replay.") as cache:
        own = {**_SETTINGS, "TVM_HETERO_CACHE": cache}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def read(path: Path) -> dict[str, str]:
    """SHA-256 by name of a file that `write` made."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write(path: Path, found: Mapping[str, str]) -> None:
    """Write SHA-256 by name, a name a line."""
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def report(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Print each name that differs; 1 if there is any."""
    rows = list(differences(before, after))
    for row in rows:
        print(row)
    print(f"{len(rows)} differ" if rows else f"all {len(after)} are the same")
    return 1 if rows else 0


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A line for each name whose text is another one, or that only one side has."""
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"missing: {name}"
        elif name not in before:
            yield f"new: {name}"
        elif before[name] != after[name]:
            yield f"differs: {name}"


if __name__ == "__main__":
    raise SystemExit(main())
