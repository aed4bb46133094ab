"""The node tests of the onnx wheel: which are imported, and is what they compute right.

Each of its models (some 1900, most of one node) is imported, and with ``--run`` placed on one CPU,
built and run, and compared with the outputs that come with it. As exporters write them, what is
not the first input is made a constant too (``+constants``): so shapes, axes and the like are known.

    python -m benchmarks.onnx_suite OUT.jsonl [--run] [--small] [--every N]
    python -m benchmarks.onnx_suite --compare BEFORE.jsonl AFTER.jsonl

Two files, of two versions of the code, compared: what was right and no longer is. Models are tried
in processes of 200, so that one that ends its process takes no other one with it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_hetero.errors import HeteroError

RIGHT, IMPORTED, WRONG, REFUSED, CRASHED = "right", "imported", "wrong", "refused", "crashed"
SMALL = (
    "test_relu", "test_gather_0", "test_gather_negative_indices", "test_conv_with_strides_padding",
    "test_add_bcast", "test_softmax_axis_1", "test_convtranspose_output_shape",
    "test_hardswish", "test_layer_normalization_2d_axis1", "test_slice",
)  # fmt: skip
_AT_ONCE, _SECONDS = 200, 60


@dataclass(frozen=True)
class Case:
    """A model, arrays for its inputs in order, and its outputs with their tolerances."""

    name: str
    model: onnx.ModelProto
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[np.ndarray[Any, Any]]
    rtol: float
    atol: float


def cases(names: Sequence[str] | None = None) -> Iterator[Case]:
    """Yield the cases on tensors, as they are and with constants; all, or those of these names."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for each in found:
        if each.model is None or (names is not None and each.name not in names):
            continue
        inputs, outputs = each.data_sets[0]
        if not all(isinstance(a, np.ndarray | np.generic) for a in [*inputs, *outputs]):
            continue
        arrays = [np.asarray(a) for a in inputs]
        results = [np.asarray(a) for a in outputs]
        yield Case(each.name, each.model, arrays, results, each.rtol, each.atol)
        if len(arrays) > 1:
            model, kept = with_constants(each.model, arrays)
            name = f"{each.name}+constants"
            yield Case(name, model, kept, results, each.rtol, each.atol)


def with_constants(
    model: onnx.ModelProto, arrays: Sequence[np.ndarray[Any, Any]]
) -> tuple[onnx.ModelProto, list[np.ndarray[Any, Any]]]:
    """Return a copy in which all inputs but the first are constants, and the first one's array."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    rest = list(copy.graph.input)[1:]
    for value, array in zip(rest, arrays[1:], strict=True):
        copy.graph.initializer.append(numpy_helper.from_array(array, value.name))
    del copy.graph.input[1:]
    return copy, list(arrays[:1])


def attempt(case: Case, run: bool) -> tuple[str, str]:
    """Return what became of a case and, if it is not right, why."""
    from tvm_hetero.frontends.onnx import from_onnx

    try:
        module = from_onnx(case.model)
    except HeteroError as error:
        return REFUSED, str(error)
    except Exception as error:
        return CRASHED, f"import: {type(error).__name__}: {error}"
    if not run:
        return IMPORTED, ""
    try:
        found = outputs_of(module, case.inputs)
    except Exception as error:
        return CRASHED, f"{type(error).__name__}: {error}"
    return compared(found, case)


def outputs_of(module: Any, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Place a module on one CPU, build it, and run it once."""
    import tvm_hetero as th
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import partition

    cpu = th.Device(
        "cpu", target={"kind": "llvm"}, cores=(0,), peak_flops=1e11, bandwidth=1e10, launch=1e-6
    )
    placed = partition(
        module, th.Platform((cpu,)), PartitionOptions(cost_model="analytical", time_limit=1)
    )
    with th.Executor(th.build(placed.module, single=False)) as executor:
        names = [str(name) for name in module["main"].attrs["hetero_input_names"]]
        outputs = executor.run(dict(zip(names, inputs, strict=True)))
        return [np.array(output.numpy()) for output in outputs]


def compared(found: Sequence[np.ndarray[Any, Any]], case: Case) -> tuple[str, str]:
    """Return whether the outputs are those that the case expects."""
    for i, (ours, theirs) in enumerate(zip(found, case.outputs, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return WRONG, f"output {i}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        try:
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.astype(np.float64), case.rtol, case.atol
            )
        except AssertionError as error:
            return WRONG, f"output {i}: {error}"
    return RIGHT, ""


def _work(names: Sequence[str], run: bool, small: Sequence[str] | None, results: Any) -> None:
    """Try the cases of these names, in this order, and send what becomes of each."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {_SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    found = {case.name: case for case in cases(small)}
    for name in names:
        results.send((name, "", ""))
        signal.alarm(_SECONDS)
        try:
            status, why = attempt(found[name], run)
        except TimeoutError as error:
            status, why = CRASHED, str(error)
        finally:
            signal.alarm(0)
        results.send((name, status, why))


def tried(
    names: Sequence[str], run: bool, small: Sequence[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield name, status and reason of each of these cases, tried in processes of their own."""
    context = multiprocessing.get_context("spawn")
    rest = list(names)
    while rest:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(rest[:_AT_ONCE], run, small, sender))
        process.start()
        sender.close()
        begun = ""
        try:
            for _ in range(2 * min(len(rest), _AT_ONCE)):
                if not receiver.poll(10 * _SECONDS):
                    process.kill()
                name, status, why = receiver.recv()
                begun = name if not status else ""
                if status:
                    rest.remove(name)
                    yield name, status, why
        except EOFError:
            process.join()
            name = begun or rest[0]
            rest.remove(name)
            yield name, CRASHED, f"the process ended with {process.exitcode}"
        process.join()


def lost(before: Iterable[Sequence[str]], after: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for each case that was imported or right before, and no longer is."""
    known = {name: (status, why) for name, status, why in before}
    good = (IMPORTED, RIGHT)
    return [
        f"{name}: {known[name][0]} -> {status}: {' '.join(why.split())[:600]}"
        for name, status, why in after
        if name in known and known[name][0] in good and status not in good
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--small", action="store_true", help="ten of the models")
    parser.add_argument("--names", type=Path, help="a file of names, one a line")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args(arguments)
    if args.compare:
        before, after = ([json.loads(x) for x in f.read_text().splitlines()] for f in args.files)
        found = lost(before, after)
        print("\n".join(found))
        return 1 if found else 0
    small = SMALL if args.small else None
    names = args.names.read_text().split() if args.names else [c.name for c in cases(small)]
    counts: dict[str, int] = {}
    with args.files[0].open("w") as out:
        for row in tried(names[:: args.every], args.run, small):
            out.write(json.dumps(row) + "\n")
            out.flush()
            counts[row[1]] = counts.get(row[1], 0) + 1
    print(counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
