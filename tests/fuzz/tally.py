"""What all harnesses share: which seeds they try, and the line that they end with.

The line is JSON, and `tests.fuzz.campaign` reads it::

    {"harness": "documents", "first": 7, "count": 5000, "faults": 0, "outcomes": {"read": 612, ...}}
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

SECONDS = 60.0


def harness_parser(description: str | None, first: int | None = 0) -> argparse.ArgumentParser:
    """A parser that knows what each harness is asked for.

    Parameters
    ----------
    description : str, optional
        The harness's own.
    first : int, optional
        The first seed where none is given; by default one that no run has had.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, help="inputs; else as many as there is time for")
    parser.add_argument("--seconds", type=float, help=f"by default {SECONDS:g}, without --count")
    fresh = time.time_ns() // 1_000_000
    parser.add_argument("--first", type=int, default=fresh if first is None else first)
    return parser


def seeds(asked: argparse.Namespace) -> Iterator[int]:
    """The seeds to try, until there are enough or the time is over."""
    endless = asked.seconds is None and asked.count is not None
    seconds = float("inf") if endless else SECONDS if asked.seconds is None else asked.seconds
    end = time.monotonic() + seconds
    for seed in itertools.islice(itertools.count(asked.first), asked.count):
        if time.monotonic() > end:
            return
        yield seed


def conclude(
    module: str, first: int, outcomes: Mapping[str, int], faults: int, count: int | None = None
) -> int:
    """Print what came of a run, and return its exit status.

    Parameters
    ----------
    module : str
        The harness's file or name.
    first : int
        Its first seed.
    outcomes : mapping of str to int
        How often each kind of end was seen.
    faults : int
        How many inputs ended as none may.
    count : int, optional
        How many inputs there were; else each has one outcome.
    """
    name = module.rpartition("/")[2].removesuffix(".py")
    total = sum(outcomes.values()) if count is None else count
    said = {"harness": name, "first": first, "count": total, "faults": faults,
            "outcomes": {key: outcomes[key] for key in sorted(outcomes)}}  # fmt: skip
    print(json.dumps(said), flush=True)
    return min(faults, 1)


def compare_seeds(
    module: str, asked: argparse.Namespace, compare: Callable[[int], tuple[str, Sequence[str]]]
) -> int:
    """Compare what each seed stands for, tell what is wrong, and conclude.

    Parameters
    ----------
    module, asked
        The harness's file, and what its `harness_parser` read.
    compare : callable
        From a seed to the kind of its end, and what is wrong; an input with anything is a fault.

    Returns
    -------
    int
        The exit status.
    """
    verdicts, faulty = Counter[str](), 0
    for seed in seeds(asked):
        verdict, found = compare(seed)
        verdicts[verdict] += 1
        faulty += bool(found)
        for text in found:
            print(f"seed {seed}: {text}", flush=True)
    return conclude(module, asked.first, verdicts, faulty)
