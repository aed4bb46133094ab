"""Saved Relay programs that are nearly right: an answer in each case.

    python -m tests.fuzz.relay_programs [--count N] [--first SEED]

A seed is a program as JSON, as text or with its parameters, in which something is changed. It is
imported, and looked through as `relay-check` does. What is no answer (`limited.judge`) is printed
with its seed.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from tests.frontends.relay.json_reader.test_graph_file import params_bytes
from tests.frontends.relay.models import DATA
from tests.fuzz.limited import FAULT, Verdict, judge
from tests.fuzz.mutations import mutate_bytes, mutate_json
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.frontends.relay import from_json, load_params
from tvm_hetero.frontends.relay.check import relay_check

_NAMES = ("fc1_weight", "fc1_bias", "data")
# Words of a text in its grammar, of which others take the place.
_WORD = re.compile(rb"[%@]?[A-Za-z_][\w.]*|-?\d+[\w.]*|[^\s\w]")
_WORDS = [b"%0", b"%9", b"@main", b"let", b"if", b"fn", b"meta[relay.Constant][0]", b"0f", b"-1",
          b"Tensor[(2, 4), float32]", b"float7", b"1e999f", b"nn.dense", b"()", b"(", b")", b"{",
          b"9999999999", b"None", b"match", b"#[version", b"/*", b"units=", b"\0"]  # fmt: skip


@cache
def _valid(kind: str) -> bytes:
    if kind == "params":
        return params_bytes({name: np.ones((3, 2), np.float32) for name in _NAMES})
    return (DATA / f"mlp.relay.{kind}").read_bytes()


def broken_program(seed: int) -> tuple[str, bytes]:
    """The kind of a seed's file, and what is in it."""
    rng = random.Random(seed)
    kind = rng.choice(["json", "json", "txt", "txt", "params"])
    raw = _valid(kind)
    if kind == "json":
        return kind, mutate_json(raw, rng)
    if kind == "txt" and rng.random() < 0.7:
        return kind, _change_words(raw, rng)
    return kind, mutate_bytes(raw, rng)


def _change_words(text: bytes, rng: random.Random) -> bytes:
    words = [match.span() for match in _WORD.finditer(text)]
    for start, end in sorted(rng.sample(words, rng.choice([1, 1, 2, 3])), reverse=True):
        other = slice(*rng.choice(words))
        text = text[:start] + rng.choice([b"", rng.choice(_WORDS), text[other]]) + text[end:]
    return text


def read_program(path: Path) -> None:
    """Import a file, and look through it; a ``.params`` file is read."""
    if path.suffix == ".params":
        load_params(path)
        return
    relay_check(path)
    from_json(path)


def attempt(seed: int) -> Verdict:
    """The verdict on the file of a seed."""
    kind, raw = broken_program(seed)
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-fuzz-") as place:
        path = Path(place) / f"net.{kind}"
        path.write_bytes(raw)
        return judge(lambda: read_program(path))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try seeds one after the other; 1 if there was a fault."""
    parser = harness_parser(__doc__)
    asked = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in seeds(asked):
        verdict = attempt(seed)
        counts[verdict.status] += 1
        if verdict.status == FAULT:
            print(f"seed {seed} ({broken_program(seed)[0]}): {verdict.told}", flush=True)
    return conclude(__file__, asked.first, counts, counts[FAULT])


if __name__ == "__main__":
    sys.exit(main())
