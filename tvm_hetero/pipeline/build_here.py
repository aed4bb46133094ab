"""From a module to what runs quickest on this machine, in one call."""

from __future__ import annotations

import warnings
from dataclasses import replace

import tvm

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.cost_models.registry import by_name
from tvm_hetero.errors import HeteroError
from tvm_hetero.executor.choose_division import quickest_division
from tvm_hetero.executor.choose_variant import decide
from tvm_hetero.pipeline.divisions import (
    Built,
    Contests,
    division_here,
    shared_contests,
    try_divisions,
    ways_to_divide,
)
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform.division import Division
from tvm_hetero.problem.precision_promise import INT8


def build_here(
    mod: tvm.IRModule, options: PartitionOptions = PartitionOptions(), *, measure: bool = True
) -> Executable:
    """Partition a module for this machine and compile it, as ``tvm-hetero partition`` does.

    For latency each way to divide the cores is planned, built and run that may be the quickest
    (`tvm_hetero.pipeline.divisions`), beside its best single device; the quickest is returned, and
    its `decision` tells what all took.

    Parameters
    ----------
    mod : a Relax module, lowered or not.
    measure : whether plans are run; if not, predictions decide.

    Raises
    ------
    HeteroError
        As `partition`, `tvm_hetero.compiler.build.build` and `decide`.
    """
    decided: Contests = {}

    def make(way: Division) -> Built:
        nonlocal mod
        platform = way.detect()
        asked = options.cost_model
        model = by_name(asked) if isinstance(asked, str) else asked
        with shared_contests(model, decided):
            if options.precision == INT8:
                # It loads onnx, which other modules than an ONNX file's can do without.
                from tvm_hetero.pipeline.int8_module import int8_module

                mod = int8_module(mod, platform, options, model)  # once, for all ways
            result = partition(mod, platform, replace(options, cost_model=model))
        executable = build(result.placed)
        return result, decide(executable) if measure else executable

    def failed(error: HeteroError) -> None:
        warnings.warn(f"cores divided otherwise: {error}", DivisionWarning, stacklevel=4)

    ways = ways_to_divide(options) if measure else [division_here(options)]
    tried = try_divisions(ways, make, failed)
    executables = [executable for _, executable in tried]
    return executables[0] if len(executables) == 1 else quickest_division(executables)


class DivisionWarning(UserWarning):
    """A way to divide this machine's cores was left out; the text says why."""
