"""A float model's module, made anew from its ONNX file with products and convolutions of bytes.

    1. kinds of nodes     each is measured by itself, in float32 and between codes; those that gain
                          are quantised (`measure_nodes`)
    2. quantise           by ONNX Runtime, ranges from the inputs for calibration
                          (`tvm_hetero.frontends.onnx.post_training`): those nodes, and all nodes
    3. the whole          the kernels of each network are measured, with all that turns numbers
                          into codes, beside those in float32: the quickest is taken
    4. the error          of our outputs in bytes from ONNX Runtime's in float32, on inputs for
                          calibration and on others; more than is allowed is refused

What is measured of a node leaves its edges out: a neighbour in float32 costs a conversion. Step 3
counts them; it looks at those two choices only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import onnx
import tvm
import tvm_ffi

from tvm_hetero.cost_models.protocol import CostModel, Progress
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.importer import import_checked
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.post_training import (
    is_quantized,
    prepare_model,
    quantizable_nodes,
    quantize_model,
    refuse_large,
    require_quantizer,
)
from tvm_hetero.frontends.onnx.post_training.nodes_alone import nodes_alone
from tvm_hetero.frontends.onnx.source import imported_model, noted_limits
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, RANGES, SOURCE
from tvm_hetero.passes.precision_promise import promise_of, with_promise
from tvm_hetero.pipeline.choose_precision import refuse_unmeasurable
from tvm_hetero.pipeline.int8_error import RANDOM_KINDS, measure_error, refuse_error
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.precision.calibration_inputs import calibration_inputs, check_inputs
from tvm_hetero.pipeline.precision.output_error import metric_name
from tvm_hetero.pipeline.precision.rare_errors import CONFIDENCE, exceeding_share
from tvm_hetero.pipeline.steps import LOWER, run_phases
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.precision_promise import FLOAT32, INT8, PrecisionPromise

# Attributes of ``main`` that a quantised module has from the float one.
_KEPT = (INPUT_NAMES, OUTPUT_NAMES, MODEL_NAME, SOURCE, RANGES)
# A node's bytes must take this share of its float32 at most: edges are not in it.
_WORTH = 0.95
# Random inputs, held out, on which an error is measured of which nothing is promised.
_MEASURED = 2


def int8_module(
    mod: tvm.IRModule,
    platform: Platform,
    options: PartitionOptions,
    model: CostModel,
    progress: Progress | None = None,
) -> tvm.IRModule:
    """The module in bytes, with what is promised of it; as it is where it is one already.

    Parameters
    ----------
    mod : imported from an ONNX file, not placed.
    platform : where kernels are measured.
    options : of precision ``int8``.
    model : what measures them.

    Raises
    ------
    UsageError
        If the module is of no ONNX file or was changed since, nothing can be measured, ONNX Runtime
        is not installed, an input for calibration is not the model's, the outputs are further off
        than is allowed, or the module is in bytes already and another metric is asked for.
    ModelError
        If ONNX Runtime does not take the model, or it is too large.
    """
    found = promise_of(mod)
    if found is not None and found.precision == INT8:
        return _again(mod, found, options)
    source = _source_of(mod, found)
    proto, limits = imported_model(source), noted_limits(source)
    if is_quantized(proto):
        return _as_it_is(mod, options, "the model is quantised already")
    require_quantizer()
    refuse_large(proto)
    _refuse_changed(mod, proto, limits)
    plain = _lowered(mod, Job(mod, platform, options, model, progress))
    refuse_unmeasurable(plain, INT8)
    for values in options.calibration:
        check_inputs(plain.tasks.main, values)
    prepared = prepare_model(proto, limits)
    choices = measure_nodes(prepared, plain)
    if not choices:
        return _as_it_is(mod, options, _NOTHING)
    main, given = plain.tasks.main, options.calibration
    checks = options.checks if options.accuracy is not None else _MEASURED
    inputs, held_out = calibration_inputs(main, given, options.seed, RANDOM_KINDS, checks)
    before = _seconds(plain)
    tried = []
    for nodes in choices:
        made = _imported(quantize_model(prepared, inputs, nodes, limits), mod, limits)
        job = _lowered(made, plain)
        tried.append((_seconds(job), job, made))
    after, codes, made = min(tried, key=lambda each: each[0])
    if after >= before:
        return _as_it_is(mod, options, _NOT_QUICKER, before)
    promise = measure_error(codes, options, prepared, inputs, held_out)
    refuse_error(promise)
    return with_promise(made, replace(promise, seconds_float32=before, seconds=after))


def _again(mod: tvm.IRModule, found: PrecisionPromise, options: PartitionOptions) -> tvm.IRModule:
    """A module that is in bytes already, with the accuracy that is asked for now."""
    metric = metric_name(options.metric)
    compared = options.accuracy is not None or options.metric is not None
    if compared and found.measured is not None and metric != found.metric:
        raise UsageError(
            f"precision int8: this module is in int8 already, and its error was measured as "
            f"{found.metric!r}, not {metric!r}; begin with the model itself, or leave the metric "
            "as it was"
        )
    if options.accuracy is None:
        return mod
    share = exceeding_share(found.held_out_inputs, 1)
    promise = replace(found, accuracy=options.accuracy, exceeding=share, confidence=CONFIDENCE)
    refuse_error(promise)
    return with_promise(mod, promise)


_NOTHING = "no product or convolution by constants is quicker in int8"
_NOT_QUICKER = "with the conversions that it needs, the network is not quicker in int8"


def _source_of(mod: tvm.IRModule, found: PrecisionPromise | None) -> Mapping[str, Any]:
    """What the module says of its ONNX file."""
    if found is not None and found.tasks:
        raise UsageError(
            f"precision int8: tasks of this module are in {found.precision} already; begin with "
            "the model itself"
        )
    attrs = mod["main"].attrs
    note = json.loads(str(attrs[SOURCE])) if attrs and SOURCE in attrs else {}
    if not {"path", "sha256", "shapes", "random_weights"} <= set(note):
        raise UsageError(
            "precision int8: a model is quantised as ONNX, and this module is of no ONNX file; "
            "import one by from_onnx('model.onnx'), or quantise what you have before and import "
            "that (QDQ files run in int8 as they are)"
        )
    return note


def _refuse_changed(mod: tvm.IRModule, proto: onnx.ModelProto, limits: OnnxLimits) -> None:
    """Refuse a module that is not what its file gives: it would be thrown away silently."""
    again = import_checked(proto, proto.graph.name, limits=limits)
    if not tvm_ffi.structural_equal(_without_notes(mod), _without_notes(again)):
        raise UsageError(
            "precision int8: this module was changed since it was imported, and what is quantised "
            "is its file; apply passes after that, or quantise the file itself and import that "
            "(QDQ files run in int8 as they are)"
        )


def _without_notes(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without what a quantised one takes over from it (`_imported`)."""
    main = mod["main"]
    for name in _KEPT:
        main = main.without_attr(name)
    plain = tvm.IRModule(dict(mod.functions_items()), global_infos=mod.global_infos)
    plain["main"] = main
    return plain


def _lowered(mod: tvm.IRModule, like: Job) -> Job:
    """A job of a module for the same platform, lowered, in the precision that the module has."""
    plain = replace(like.options, precision=FLOAT32, accuracy=None, metric=None, calibration=())
    job = Job(mod, like.platform, plain, like.model, like.progress)
    run_phases(job, (LOWER,))
    return job


def _task_seconds(job: Job) -> list[float]:
    """What each task takes, by itself on its quickest device."""
    costs = job.model.costs(job.tasks.kernels, job.platform, job.progress)
    best = {
        name: min(cost.points[0][1] / cost.points[0][0] for cost in row.values())
        for name, row in costs.items()
    }
    return [best[kernel] for kernel in job.tasks.kernel_of.values()]


def _seconds(job: Job) -> float:
    return math.fsum(_task_seconds(job))


def measure_nodes(prepared: onnx.ModelProto, of: Job) -> list[list[str]]:
    """Which nodes to quantise: those that gain, each by itself, and all that there are.

    Parameters
    ----------
    prepared : as `prepare_model` returns it.
    of : a job for the same platform and cost model.

    Returns
    -------
    list of list of str
        Names in the model's order; empty where no node gains.
    """
    nodes = quantizable_nodes(prepared)
    alone = nodes_alone(prepared, nodes)
    if not alone.kinds:
        return []
    plain, codes = (
        _branch_seconds(_lowered(from_onnx(proto), of), len(alone.kinds))
        for proto in (alone.plain, alone.codes)
    )
    gaining = {
        name
        for names, before, after in zip(alone.kinds, plain, codes, strict=True)
        if after <= _WORTH * before
        for name in names
    }
    everything = [node.name for node in nodes]
    chosen = [name for name in everything if name in gaining]
    return [] if not chosen else [chosen] if chosen == everything else [chosen, everything]


def _branch_seconds(job: Job, count: int) -> list[float]:
    """What each branch of a model of `nodes_alone` takes."""
    main = job.tasks.main
    branch: dict[int, int] = {}
    seconds = [0.0] * count
    for call, taken in zip(main.calls, _task_seconds(job), strict=True):
        roots = main.reads(call)
        sources = {root.index if root.call is None else branch[root.call] for root in roots}
        branch[call.position] = min(sources)
        seconds[min(sources)] += taken
    return seconds


def _imported(quantized: onnx.ModelProto, like: tvm.IRModule, limits: OnnxLimits) -> tvm.IRModule:
    """The quantised model's module, with the names that the other one has."""
    made = from_onnx(quantized, limits=limits)
    kept = like["main"].attrs
    attributes = {name: kept[name] for name in _KEPT if name in kept}
    made["main"] = made["main"].with_attrs(attributes)
    return made


def _as_it_is(
    mod: tvm.IRModule, options: PartitionOptions, reason: str, seconds: float | None = None
) -> tvm.IRModule:
    promise = PrecisionPromise(INT8, options.accuracy, reason=reason, seconds_float32=seconds)
    return with_promise(mod, promise)
