"""Odd values of options: each verb takes them, or says in a line what it expected instead.

    python -m tests.fuzz.odd_options [--count N] [--seconds S] [--first SEED] [--verb NAME]

A *trial* is a verb of `interrupted_verbs` in an empty folder, one of whose numbers is another one:
none, endless, negative, tiny, huge, or a text that looks like one. Then must hold:

    status     0, or that of an error of ours; 143 where it takes the value, and works on it longer
               than `PATIENCE`, so that it is asked to end
    words      no traceback; one error, which names the option or the value
    files      nothing half-written, nothing temporary
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tests.fuzz.interrupted_verbs import ROOT, VERBS, Verb, prepare
from tests.fuzz.signals import bad_words, left_behind, server
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.cli.verb_table import load_verb

PATIENCE = 20.0
NUMBERS = (
    "0", "-0.0", "-1", "1", "3", "1e-9", "1e-400", "nan", "inf", "-inf", "1e300", "1e308", "0.5",
    "2147483648", "9223372036854775808", "99999999999999999999999", "9" * 5000, "1_000", "5s", "1e",
    "0x10", "", " ", "\u0663", "\u202e5", "--", "'; drop", "1,2", "%s", "{x}", "NaN%", "\ud800",
)  # fmt: skip
_OURS = frozenset(range(7))  # of errors.py, and 2 of the command line's own


@dataclass(frozen=True)
class Trial:
    """What is tried, all of it drawn from the seed."""

    seed: int
    verb: Verb
    option: str
    value: str

    @classmethod
    def draw(cls, seed: int, only: str | None = None) -> Trial:
        rng = random.Random(seed)
        verbs = [v for v in VERBS if (only is None or v.name == only) and number_options(v)]
        verb = rng.choice(verbs)
        return cls(seed, verb, rng.choice(number_options(verb)), rng.choice(NUMBERS))

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.verb.name!r} with {self.option}={self.value[:40]!a}"


def number_options(verb: Verb) -> list[str]:
    """Options of a verb that are numbers, by their long names."""
    parameters = load_verb(verb.arguments.partition(" ")[0]).params
    return [each.opts[-1] for each in parameters if _is_number(each)]


def _is_number(parameter: Any) -> bool:
    given = parameter.type_descriptor.annotation
    return parameter.opts[0].startswith("-") and bool({int, float} & {given, *get_args(given)})


def run_trial(trial: Trial, inputs: Path, port: int = 0) -> tuple[int, list[str]]:
    """Do it; the status, and what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="odd_options.") as name:
        work, temporary = Path(name) / "work", Path(name) / "tmp"
        work.mkdir()
        temporary.mkdir()
        cache = inputs / "cache"
        given = {"in": inputs, "port": port, "relay": ROOT / "tests" / "data" / "relay"}
        command = trial.verb.arguments.format(**given).split()
        environment = os.environ | {
            "TMPDIR": str(temporary), "TVM_HETERO_CACHE": str(cache), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        odd = os.fsencode(trial.option) + b"=" + trial.value.encode("utf-8", "surrogatepass")
        process = subprocess.Popen(
            [sys.executable, "-m", "tvm_hetero", *command, odd], cwd=work, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        status, said = _ended(process)
        faults = [
            *_status_faults(status),
            *bad_words(said),
            *unclear_words(trial.option, trial.value, status, said),
        ]
        faults += left_behind(work, temporary, cache)
        return status, [*faults, said[-1500:]] if faults else []


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for it, or ask it to end; its status and its words."""
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            _, said = process.communicate(timeout=2 * PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            _, said = process.communicate()
    return process.returncode, said.decode(errors="replace")


def _status_faults(status: int) -> Iterator[str]:
    if status not in _OURS and status != 143:
        yield f"status {status}"


def unclear_words(option: str, value: str, status: int, said: str) -> Iterator[str]:
    """What an error lacks."""
    if status in (0, 143):
        return
    errors = [line for line in said.splitlines() if line.lower().startswith(("error", "usage"))]
    if not errors:
        yield "no error"
    # As a request calls it (top_p), or as it is written (warm-up).
    name, words = (re.sub("[-_ ]", "", text.lower()) for text in (option, said))
    if name.rstrip("s") not in words and value not in said:
        yield "neither the option nor its value is named"


def main(arguments: list[str] | None = None) -> int:
    """Run trials; the status says whether all went well."""
    parser = harness_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--verb", choices=[verb.name for verb in VERBS])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz" / "signals")
    given = parser.parse_args(arguments)
    prepare(given.folder)
    outcomes, failed = Counter[str](), 0
    with server(given.folder) as port:
        for seed in seeds(given):
            trial = Trial.draw(seed, given.verb)
            status, faults = run_trial(trial, given.folder, port)
            failed += bool(faults)
            outcomes[f"status {status}"] += 1
            print(f"{trial}: {status}", *faults, sep="\n    ", flush=True)
    return conclude(__file__, given.first, outcomes, failed)


if __name__ == "__main__":
    sys.exit(main())
