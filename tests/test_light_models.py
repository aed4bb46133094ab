"""The nine models of the onnx wheel: imported, placed, run on two unlike devices, and right.

Costs come from the analytical model, so that the plans do not hang on the machine's load; plans
from measured costs are in `benchmarks/latency.py` and `tests/test_make_demo.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import tvm_hetero as th
from benchmarks.execution.logits import logits_of
from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.models import two_cpus
from tvm_hetero import relay
from tvm_hetero.check import check_schedule
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.cost_models.analytical import AnalyticalCosts
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

MODELS = light_models()
# What has no branches or takes long to compile is planned for throughput alone.
KINDS = dict.fromkeys(("shufflenet", "squeezenet"), ("latency", "throughput"))


def unlike_cpus() -> Platform:
    """Two CPU places, one twice as fast as the other; made-up figures, see the file's text."""
    platform = two_cpus()
    big, little = platform.devices
    return replace(
        platform,
        devices=(
            replace(big, peak_flops=2e11, bandwidth=2e10, launch=2e-6),
            replace(little, peak_flops=1e11, bandwidth=2e10, launch=2e-6),
        ),
    )


def onnxruntime_outputs(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, inputs))


def test_there_are_nine():
    assert len(MODELS) == 9


# Not VGG-19 and ZFNet: hundreds of megabytes of weights, and layers that AlexNet has, too.
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"vgg19", "zfnet512"}))
def test_partitioned_its_logits_equal_onnxruntimes(name):
    """Before the softmax, which would make the largest differences small."""
    model = logits_of(randomize_weights(load_model(MODELS[name]), 0))
    mod = relay.frontend.from_onnx(model)
    expected = None
    for kind in KINDS.get(name, ("throughput",)):
        placed = partition(
            mod,
            unlike_cpus(),
            PartitionOptions(objective=Objective(kind), time_limit=0.3, cost_model="analytical"),
        )
        assert check_schedule(placed.problem, placed.schedule) == []
        with Executor(th.build(placed.module, single=False)) as executor:
            inputs = executor.random_inputs(0)
            outputs = [out.numpy() for out in executor.run(inputs)]
            devices = {step.device for step in executor.trace()}
        expected = expected or onnxruntime_outputs(model, inputs)
        for ours, reference in zip(outputs, expected, strict=True):
            assert ours.shape == reference.shape
            # The outputs mean something: they differ, and by much more than the tolerance.
            spread = reference.max() - reference.min()
            assert spread > 10 * 1e-3 * np.abs(reference).max()
            np.testing.assert_allclose(ours, reference, rtol=1e-3, atol=1e-4 * spread)
        used = {e.device for e in placed.schedule.executions}
        assert devices == used
        if kind == "throughput":
            assert used == {"big", "little"}


class Mixed(AnalyticalCosts):
    """Analytical costs that claim to be those of the default loop nest, but for products."""

    def costs(self, kernels, platform, progress=None):
        costs = super().costs(kernels, platform, progress)
        for name, row in costs.items():
            if "conv2d" not in name and "dense" not in name:
                costs[name] = {d: replace(c, implementation="default") for d, c in row.items()}
        return costs


def test_saved_and_loaded_the_stock_vm_gives_the_same_bits(tmp_path):
    mod = relay.frontend.from_onnx(MODELS["squeezenet"], random_weights=0)
    placed = partition(mod, unlike_cpus(), PartitionOptions(time_limit=0.3, cost_model=Mixed()))
    assert len({e.device for e in placed.schedule.executions}) == 2
    built = th.build(placed.module, single=False)
    assert {choice.implementation for choice in built.choices} == {"rule", "default"}
    built.save(tmp_path / "net.hetero")
    with th.load(tmp_path / "net.hetero") as executor:
        inputs = executor.random_inputs(1)
        outputs = [out.numpy() for out in executor.run(inputs)]
    reference = ReferenceVM(placed.module).run(*inputs.values())
    assert [out.tobytes() for out in outputs] == [array.tobytes() for array in reference]
    model = randomize_weights(load_model(MODELS["squeezenet"]), 0)
    for ours, theirs in zip(outputs, onnxruntime_outputs(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.ptp(theirs))
