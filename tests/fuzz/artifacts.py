"""Artifacts that are nearly right, loaded by Python and by C++: an answer in each case.

    python -m tests.fuzz.artifacts [--count N] [--seconds S] [--first SEED] [--keep FOLDER]

A seed is an artifact of which one or two files are changed, exchanged, replaced by what is no file,
or missing. Python loads and runs it in a child with limits, and so does the C++ example program. In
half of them the manifest's hashes are made to fit, so that what reads a file has to find what is
wrong with it; libraries are code, and changed only where their hash tells of it (SECURITY.md). One
that ends the process as it is loaded stands for all that must not be. A fault is what is no answer
(`limited.judge`), and another output than the whole artifact's where no hash was made to fit.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.cpp.cpp_build import example_program
from tests.fuzz.limited import BYTES, FAULT, REFUSED, SECONDS, TAKEN, Verdict, judge
from tests.fuzz.mutations import (
    mutate_bytes,
    mutate_json,
    mutate_safetensors,
    mutate_scalars,
)
from tests.fuzz.odd_files import REPLACEMENTS
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.executor.executor import load
from tvm_hetero.util.files import sha256_of_file

_LARGEST = 1 << 24  # a sparse file is changed no more
_LONGEST = 4000
_TURN = 0.05
# Devices compute with other instructions: outputs of one variant differ so much from another's.
_CLOSE = 1e-5
_WEIGHTS = {"manifest.json": 3, "plan.json": 4, "weights.safetensors": 3, "problem.json": 2}
_TRAP = "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(99); }\n"


class Whole(NamedTuple):
    """An artifact that is right, what it computes, and the program that runs it without Python."""

    folder: Path
    inputs: dict[str, np.ndarray[Any, Any]]
    outputs: list[np.ndarray[Any, Any]]
    program: Path


@cache
def trap() -> bytes:
    """A library that ends the process that loads it."""
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-fuzz-") as place:
        source, made = Path(place, "trap.c"), Path(place, "trap.so")
        source.write_text(_TRAP)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, source], check=True)
        return made.read_bytes()


def broken_artifact(seed: int, source: Path, folder: Path) -> bool:
    """Make the artifact of a seed; whether the hashes in its manifest were made to fit."""
    rng = random.Random(seed)
    shutil.copytree(source, folder)
    sealed = rng.random() < 0.5
    for _ in range(rng.choice([1, 1, 1, 2])):
        _damage(folder, sealed, rng)
    if sealed:
        seal(folder)
    return sealed


def _damage(folder: Path, sealed: bool, rng: random.Random) -> None:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink()]
    if sealed:
        files = [path for path in files if path.suffix != ".so"]
    path = rng.choices(files, [_WEIGHTS.get(file.name, 1) for file in files])[0]
    what = rng.random()
    if what < 0.1:
        rng.choice(REPLACEMENTS)(path)
    elif what < 0.2:
        _exchange(path, rng.choice(files))
    elif what < 0.3 and not sealed:
        _set_trap(rng.choice([path, *folder.glob("*.so")]), folder.with_name("trap.so"), rng)
    elif what < 0.4:
        _change_manifest(folder / "manifest.json", rng)
    elif _is_readable(path):
        _change(path, rng)


def _exchange(one: Path, other: Path) -> None:
    if one != other:
        between = one.with_name("between")
        one.rename(between)
        other.rename(one)
        between.rename(other)


def _set_trap(path: Path, outside: Path, rng: random.Random) -> None:
    path.unlink()
    if rng.random() < 0.5:
        outside.write_bytes(trap())
        path.symlink_to(outside.absolute())
    else:
        path.write_bytes(trap())


def _change(path: Path, rng: random.Random) -> None:
    raw = path.read_bytes()
    mutate: Callable[[bytes, random.Random], bytes] = mutate_bytes
    if path.suffix == ".json":
        mutate = rng.choice([mutate_json, mutate_scalars])
    elif path.suffix == ".safetensors" and len(raw) > 8:
        mutate = mutate_safetensors
    try:
        path.write_bytes(mutate(raw, rng))
    except (ValueError, LookupError, RecursionError):  # it was changed before and is none any more
        path.write_bytes(mutate_bytes(raw, rng))


def _change_manifest(path: Path, rng: random.Random) -> None:
    """Other versions, variants, files: each alone is one that a loader has to look at."""
    manifest = _read_manifest(path)
    key = rng.choice(["versions", "variants", "files", "default", "format", "spare"])
    rows = manifest.get(key)
    others = ["..", "../x", "/etc", ".", "a/b", "x" * 5000, "\x1b[2J", "", "single", "999999"]
    if not isinstance(rows, dict) or not rows:
        manifest[key] = rng.choice([*others, others, {}, None])
    elif (row := rng.choice(sorted(rows))) and rng.random() < 0.3:
        rows[rng.choice(others)] = rows.pop(row)
    elif rng.random() < 0.1:
        rows |= {f"{row}{i}": rows[row] for i in range(50_000)}
    else:
        rows[row] = rng.choice([*others, others, "0" * 64, "0.1", rows[row] + rows[row], None])
    if _is_readable(path):
        path.write_text(json.dumps(manifest))


def seal(folder: Path) -> None:
    """Make the hashes fit what there is; what is no manifest any more stays as it is."""
    path = folder / "manifest.json"
    manifest = _read_manifest(path)
    files = manifest.get("files")
    for name in files if isinstance(files, dict) else ():
        with contextlib.suppress(OSError, ValueError):
            if _is_readable(folder / name):
                files[name] = sha256_of_file(folder / name)
    if _is_readable(path) and files:
        path.write_text(json.dumps(manifest))


def _is_readable(path: Path) -> bool:
    """Whether it is a file that is not endless, or as good as."""
    return path.is_file() and path.stat().st_size < _LARGEST


def _read_manifest(path: Path) -> dict[str, Any]:
    """What stands in it; nothing if it is none any more."""
    try:
        read = json.loads(path.read_bytes()) if _is_readable(path) else {}
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def load_in_python(whole: Whole, folder: Path, sealed: bool) -> Verdict:
    """What comes of an artifact that Python loads and runs."""

    def run() -> None:
        with load(folder) as executor:
            outputs = [output.numpy() for output in executor.run(whole.inputs)]
        assert sealed or _alike(outputs, whole.outputs), "other outputs"

    return judge(run)


def load_in_cpp(whole: Whole, folder: Path, sealed: bool) -> Verdict:
    """What comes of an artifact that the program loads and runs."""
    made = folder.with_name("outputs")
    inputs = folder.with_name("inputs")
    command = [str(whole.program), str(folder), "--output", str(made)]
    if not sealed:
        inputs.mkdir()
        for number, (name, array) in enumerate(whole.inputs.items()):
            np.save(inputs / f"{number}.npy", array)
            command += ["--input", f"{name}={inputs / str(number)}.npy"]
    status, told = _run(command)
    if status is None:
        return Verdict(FAULT, "no end")
    if status == 0:
        outputs = [np.load(made / f"{i}.npy") for i in range(len(list(made.iterdir())))]
        right = sealed or _alike(outputs, whole.outputs)
        return Verdict(TAKEN, "") if right else Verdict(FAULT, "other outputs")
    line = told.removesuffix("\n")
    is_answer = status == 1 and line.startswith("error: ") and line.isprintable()
    if is_answer and len(line) < _LONGEST:
        return Verdict(REFUSED, line)
    return Verdict(FAULT, f"status {status}: {told[:_LONGEST]!r}")


def _run(command: list[str]) -> tuple[int | None, str]:
    """The status of a program, None if it does not end, and what it said."""
    process = subprocess.Popen(
        command, env={}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=_limit
    )
    # In turns, not by the clock: who stops all of this machine's programs stops us too.
    for _ in range(round(SECONDS / _TURN)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_TURN), process.communicate()[1].decode(errors="replace")
    process.kill()
    process.communicate()
    return None, ""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _alike(some: Sequence[np.ndarray[Any, Any]], others: Sequence[np.ndarray[Any, Any]]) -> bool:
    return [a.shape for a in some] == [b.shape for b in others] and all(
        np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE) for a, b in zip(some, others, strict=True)
    )


def attempt(seed: int, whole: Whole) -> tuple[Verdict, Verdict]:
    """The verdicts on the artifact of a seed, Python's and C++'s."""
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-fuzz-") as place:
        folder = Path(place) / "net.hetero"
        sealed = broken_artifact(seed, whole.folder, folder)
        return load_in_python(whole, folder, sealed), load_in_cpp(whole, folder, sealed)


def make_whole(folder: Path, program: Path) -> Whole:
    """A small artifact on two devices."""
    from tests.models import placed
    from tvm_hetero.compiler.build import build

    path = folder / "net.hetero"
    build(placed(1)).save(path)
    return whole_of(path, program)


def whole_of(path: Path, program: Path) -> Whole:
    """The small artifact at a path, with what it computes."""
    from tests.models import branchy_inputs

    inputs = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
    made = path.parent / "expected.npz"

    def compute() -> None:  # in a child: this process has no thread when it forks
        with load(path) as executor:
            np.savez(made, *(output.numpy() for output in executor.run(inputs)))

    verdict = judge(compute)
    assert verdict.status == TAKEN, verdict.told
    with np.load(made) as arrays:
        outputs = [arrays[name] for name in arrays.files]
    return Whole(path, inputs, outputs, program)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try seeds one after the other; 1 if there was a fault."""
    parser = harness_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="folder for artifacts with faults")
    asked = parser.parse_args(arguments)
    counts, tried = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-fuzz-") as place:
        whole = make_whole(Path(place), example_program())
        for seed in seeds(asked):
            tried += 1
            for loader, verdict in zip(("Python", "C++"), attempt(seed, whole), strict=True):
                counts[f"{loader} {verdict.status}"] += 1
                if verdict.status == FAULT:
                    print(f"seed {seed}, {loader}: {verdict.told}", flush=True)
                    if asked.keep:
                        shutil.rmtree(asked.keep / str(seed), ignore_errors=True)
                        broken_artifact(seed, whole.folder, asked.keep / str(seed))
    faults = sum(counts[f"{loader} {FAULT}"] for loader in ("Python", "C++"))
    return conclude(__file__, asked.first, counts, faults, tried)


if __name__ == "__main__":
    sys.exit(main())
