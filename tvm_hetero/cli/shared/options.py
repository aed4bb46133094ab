"""Options that several verbs share, and how their text is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_hetero.cli.shared.completion import objectives, offer, solvers
from tvm_hetero.errors import UsageError
from tvm_hetero.util.leftovers import make_file, remove
from tvm_hetero.util.plain_file import open_plain_file

_BLOCK = 4096
"""Bytes that any file takes of a disk."""

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model.")]
ProblemFile = Annotated[Path, typer.Argument(metavar="PROBLEM.json", help="A scheduling problem.")]
Artifact = Annotated[
    Path, typer.Argument(metavar="NET.hetero", help="What 'partition' made (a folder).")
]
PlatformFile = Annotated[
    Path | None,
    typer.Option("--platform", metavar="P.yaml", help="Platform file. [default: this machine]"),
]
ObjectiveKind = Annotated[
    str,
    typer.Option(
        "--objective",
        help="latency, throughput, energy or cost.",
        autocompletion=offer(objectives),
    ),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Elements in one batch.")]
Solver = Annotated[
    str,
    typer.Option(
        "--solver",
        help="auto (the best of them), or one that 'solvers' lists.",
        autocompletion=offer(solvers),
    ),
]
TimeLimit = Annotated[float, typer.Option("--time-limit", help="Seconds that the solver may take.")]
Gap = Annotated[
    float,
    typer.Option("--gap", min=0, help="End when the plan is proven within this share of the best."),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of everything that is random.")
]
CostModel = Annotated[
    str,
    typer.Option(
        "--cost-model", help="profiled, profiled-alone, quick, analytical or table:FILE.json."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x224x224",
        help="Shape of a dynamic input; repeatable. In 'partition' a dimension may have several "
        "sizes: 160..640/32 or 160,320.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="NAME=16000",
        help="Fix an input: a number, true, [1,2], or @FILE.npy; repeatable.",
    ),
]
Params = Annotated[
    Path | None,
    typer.Option(
        "--params",
        metavar="NET.params",
        help="Of a Relay module: values of its parameters (relay.save_param_dict).",
    ),
]
RandomWeights = Annotated[
    int | None,
    typer.Option(
        "--random-weights", metavar="SEED", min=0, help="Replace constant weights by random ones."
    ),
]
Probabilities = Annotated[
    list[str] | None,
    typer.Option(
        "--probability",
        metavar="NAME=0.9",
        help="How often the condition of an If holds, by the name of the If or of the condition: "
        "the plan is for what branches take on average; repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout, all else on stderr.")]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Measured runs.")]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Runs before the measured ones.")]

_SHAPE = re.compile(r"(?P<name>.+)=(?P<dims>[0-9]+(?:[x,][0-9]+)*|scalar|)")
_VALUE = re.compile(r"(?P<name>.+?)=(?P<value>@.+|[^=]+)")


def parse_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """Read ``NAME=1x3x224x224`` (names may hold ``=`` and ``:``; the last ``=`` divides).

    A scalar is ``NAME=scalar``, or ``NAME=``.

    Raises
    ------
    UsageError
        If a text is not of that form, or names an input twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or []:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise UsageError(f"--shape {text!r}: expected NAME=1x3x224x224, such as data=1x3x8x8")
        if match["name"] in shapes:
            raise UsageError(f"--shape: input {match['name']!r} is given twice")
        dims = re.findall("[0-9]+", match["dims"])
        shapes[match["name"]] = tuple(int(n) for n in dims)
    return shapes


def parse_values(texts: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=16000``, ``NAME=true``, ``NAME=[1,2]`` and ``NAME=@FILE.npy``.

    Returns
    -------
    dict of str to object
        Numbers, truth values and lists of them as JSON has them; arrays of files.

    Raises
    ------
    UsageError
        If a text is not of that form, names an input twice, or a file cannot be read.
    """
    values: dict[str, Any] = {}
    for text in texts or []:
        match = _VALUE.fullmatch(text)
        if match is None:
            raise UsageError(f"--value {text!r}: expected NAME=VALUE, such as sr=16000")
        if match["name"] in values:
            raise UsageError(f"--value: input {match['name']!r} is given twice")
        values[match["name"]] = _value(match["value"], text)
    return values


def parse_probabilities(texts: list[str] | None) -> dict[str, float]:
    """Read ``NAME=0.9`` (names may hold ``=``; the last one divides).

    Raises
    ------
    UsageError
        If a text is not of that form, or names a condition twice.
    """
    found: dict[str, float] = {}
    for text in texts or []:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            name = ""
        if not name:
            raise UsageError(f"--probability {text!r}: expected NAME=0.9, a name and a number")
        if name in found:
            raise UsageError(f"--probability: {name!r} is given twice")
        found[name] = value
    return found


def _value(written: str, text: str) -> Any:
    if written.startswith("@"):
        return _array(Path(written[1:]), text)
    try:
        value = json.loads(written)
        if all(isinstance(each, int | float) for each in _leaves(value)):
            return value
    except (ValueError, RecursionError):
        pass
    raise UsageError(
        f"--value {text!r}: expected a number, true, false, a list such as [1,2], or @FILE.npy"
    )


def _leaves(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return [leaf for each in value for leaf in _leaves(each)]


def _array(file: Path, text: str) -> Any:
    import numpy as np

    try:
        with open_plain_file(file) as opened:
            return np.lib.format.read_array(opened, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"--value {text!r}: cannot read {file}: {error.strerror}") from None
    # NumPy's own words advise to allow pickles, which we never do.
    except (ValueError, EOFError, MemoryError):
        raise UsageError(
            f"--value {text!r}: {file} is no whole .npy file of numbers; make one with numpy.save"
        ) from None


def parse_objective(kind: str, batch: int) -> Any:
    """The objective of that kind (`Objective`).

    Raises
    ------
    UsageError
        If there is no such kind; the nearest is suggested.
    """
    from tvm_hetero.problem.objective_kinds import KINDS, Objective
    from tvm_hetero.util.nearest import nearest

    for known in KINDS:
        if kind == known:
            return Objective(kind=known, batch=batch)
    raise UsageError(f"--objective {kind!r} is unknown{nearest(kind, KINDS)}")


def check_split(parts: int | None) -> None:
    """Refuse more CPU devices than there are cores, by the option's name.

    Raises
    ------
    UsageError
        If there are fewer cores that are ours.
    """
    if parts is None:
        return
    from tvm_hetero.platform.discovery import check_parts
    from tvm_hetero.platform.host import available_cores

    try:
        check_parts(parts, len(available_cores()))
    except UsageError as error:
        raise UsageError(f"--split {parts}: {error}") from None


def check_writable(path: Path | None, option: str = "-o", *, folder: bool = False) -> None:
    """Refuse an output that cannot be written before hours of work, not after.

    Raises
    ------
    UsageError
        If the folder of `path` does not exist or takes no files, or `path` is one itself and a
        file is to be written (not: `folder`).
    """
    if path is not None and path.is_dir() and not folder:
        raise UsageError(f"{option} {path}: is a folder; give the name of a file")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.absolute().parent}; make it")
    if path is not None and (path.is_file() or path.is_dir() or not path.exists()):
        _try_to_write(path.absolute().parent, f"{option} {path}")


def _try_to_write(folder: Path, what: str) -> None:
    """Write a file into a folder, and take it away again; nothing else tells for sure.

    (A full disk still takes empty files, and loses the answer at the end.)
    """
    try:
        path = make_file(".tvm_hetero.", "", folder)
        try:
            path.write_bytes(bytes(_BLOCK))
        finally:
            remove(path)
    except OSError as error:
        raise UsageError(f"{what}: {folder} takes no files: {error.strerror}") from None
