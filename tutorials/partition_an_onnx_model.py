"""Partition an ONNX model over the devices of this machine.

Run it from the repository, after ``make setup``:

    .venv/bin/python tutorials/partition_an_onnx_model.py [MODEL.onnx]

Without an argument it takes SqueezeNet out of the installed ``onnx`` wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tvm
from tvm.ir.instrument import PassTimingInstrument

import tvm_hetero as th
from tvm_hetero import relay  # `relax` is the same namespace under its present name
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights


def main(model: Path | None = None, target: Path = Path("demo/tutorial.hetero")) -> float:
    """Tell the story; returns the largest difference from ONNX Runtime, relative."""
    # ---------------------------------------------------------------- 1. a model
    # The models of the onnx wheel have constant weights, with which every output is the same
    # and equal outputs prove nothing: give them seeded random ones. A model of your own has its
    # own weights; leave `random_weights` out.
    seed = 0 if model is None else None
    model = model or light_models()["squeezenet"]
    mod = relay.frontend.from_onnx(model, random_weights=seed)
    print(f"1. {model.name}: {len(mod['main'].params)} input(s), one Relax function")

    # ---------------------------------------------------------------- 2. a machine
    # `Platform.detect()` looks at the machine; a platform can also be a YAML file that you write
    # (`tvm-hetero devices -o platform.yaml` gives you one to start from).
    platform = th.Platform.detect()
    for device in platform.devices:
        print(f"2. device {device.name}: cores {list(device.cores)}, target {device.target}")

    # ---------------------------------------------------------------- 3. the pass
    # HeteroPartition is an ordinary TVM pass. It lowers the model to fused kernels, measures
    # each on each device, solves the scheduling problem and writes the answer into the IR.
    # It composes with other passes, and pass instruments see it. (batch=8 plans eight inputs at
    # once: devices share the model, the inputs, or both, and `run` takes the inputs stacked.)
    timing = PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        mod = tvm.transform.Sequential(
            [
                relay.transform.HeteroPartition(
                    platform=platform, objective="latency", solver="auto", time_limit=10
                )
            ]
        )(mod)
        seen = "HeteroPartition" in timing.render()
    print(f"3. partitioned; the instrument saw the pass: {seen}")

    # What comes out is an ordinary IRModule: operators have devices, copies are `to_vdevice`.
    text = mod["main"].script()
    print("   " + "\n   ".join(line[:96] for line in text.splitlines()[3:9]))

    # ---------------------------------------------------------------- 4. build, save, load
    # (`th.decide(exe)` runs the partition and the best single device, and keeps the quicker one
    # as the default, as `tvm-hetero partition` does.)
    exe = th.build(mod)
    exe.save(target)
    ex = th.load(target)
    schedule = ex.schedule
    print(
        f"4. predicted {1e3 * schedule.value:.2f} ms, no schedule is better than "
        f"{1e3 * schedule.lower_bound:.2f} ms (gap {100 * schedule.gap:.1f} %)"
    )

    # ---------------------------------------------------------------- 5. run
    # Arrays go in by name; the outputs come in the model's order. A name that is no Python
    # identifier goes in as ex.run({"gpu_0/data_0": x}).
    inputs = ex.random_inputs(seed=0)
    outputs = ex.run(inputs)
    best = min(ex.benchmark(inputs, repeat=20))
    with th.load(target, "single" if "single" in exe.variants else None) as alone:
        single = min(alone.benchmark(inputs, repeat=20))
    print(f"5. measured {1e3 * best:.2f} ms; on the best single device {1e3 * single:.2f} ms")
    for step in ex.trace()[:4]:
        span = f"{1e3 * step.start:7.3f} - {1e3 * step.end:7.3f} ms"
        print(f"   {step.device:8} {span}  {step.name[:50]}")
    ex.close()

    # ---------------------------------------------------------------- 6. the same numbers?
    difference = compare(model, seed, inputs, outputs)
    print(f"6. largest difference from ONNX Runtime: {difference:.1e} of the largest output")
    return difference


def compare(model: Path, seed: int | None, inputs: dict[str, np.ndarray], outputs: list) -> float:
    """The largest difference from ONNX Runtime, in units of its largest output."""
    import onnxruntime

    onnx_model = load_model(model)
    if seed is not None:
        onnx_model = randomize_weights(onnx_model, seed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), options)
    worst = 0.0
    for mine, reference in zip(outputs, session.run(None, inputs), strict=True):
        scale = float(np.abs(reference).max())
        worst = max(worst, float(np.abs(mine.numpy() - reference).max()) / scale)
    return worst


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
