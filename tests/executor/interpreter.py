"""Plans, run step by step in Python: what the executor must give, with nothing in common with it.

Every buffer is fresh and filled with NaN bytes, so that who reads what nobody wrote shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvm_hetero.artifact.executable import Variant
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.plan.format import plan_to_dict
from tvm_hetero.plan.model import weight_name


def interpret(
    variant: Variant, weights: Mapping[str, Any], inputs: Mapping[str, Any]
) -> list[np.ndarray[Any, Any]]:
    """The outputs of a plan, in order, for inputs by name."""
    plan = plan_to_dict(variant.plan)
    libraries = {name: load_kernels(path) for name, path in variant.libraries.items()}
    slots: dict[int, Any] = {}
    for row in plan["inputs"]:
        slots[row["slot"]] = tvm.runtime.tensor(inputs[row["name"]], _device(plan, row["slot"]))
    for row in plan["constants"]:
        value = weights[weight_name(row["name"])]
        value = value if isinstance(value, np.ndarray) else value.numpy()
        slots[row["slot"]] = tvm.runtime.tensor(value, _device(plan, row["slot"]))
    for step in plan["steps"]:
        made = [_fresh(plan, slot) for slot in step["outs"]]
        if step["kind"] == "copy":
            made[0].copyfrom(slots[step["ins"][0]])
        else:
            worker = plan["workers"][step["worker"]]
            _run_kernels(libraries[worker["name"]], plan, step, slots, made)
        slots |= dict(zip(step["outs"], made, strict=True))
    return [slots[row["slot"]].numpy().reshape(row["shape"]) for row in plan["outputs"]]


def _run_kernels(
    library: Any, plan: Mapping[str, Any], step: Mapping[str, Any], slots: Any, made: list[Any]
) -> None:
    device = _place(plan, plan["workers"][step["worker"]]["device"])
    # Kernels take no tensor that begins inside a buffer, so the arena is copied from and to.
    scratch = np.full(step["scratch"], 0xFF, dtype="uint8")

    def part(arg: Mapping[str, Any], size: int) -> np.ndarray[Any, Any]:
        return scratch[arg["scratch"] : arg["scratch"] + size]

    def view(arg: Mapping[str, Any]) -> Any:
        if "scratch" in arg:
            flat = tvm.runtime.tensor(part(arg, _bytes(arg)), device)
            return flat._create_view(arg["shape"], arg["dtype"])
        tensor = made[arg["out"]] if "out" in arg else slots[step["ins"][arg["in"]]]
        return tensor._create_view(arg["shape"], arg["dtype"])

    for call in step["calls"]:
        tensors = [view(arg) for arg in call["args"]]
        library[call["kernel"]](*tensors)
        written = len(call["args"]) - call["written"]
        for arg, tensor in list(zip(call["args"], tensors, strict=True))[written:]:
            if "scratch" in arg:
                part(arg, _bytes(arg))[:] = np.frombuffer(tensor.numpy().tobytes(), dtype="uint8")


def _bytes(row: Mapping[str, Any]) -> int:
    items = int(np.prod(row["shape"], dtype=np.int64))
    return items * tvm_ffi.dtype(row["dtype"]).itemsize


def _fresh(plan: Mapping[str, Any], slot: int) -> Any:
    row = plan["slots"][slot]
    flat = tvm.runtime.tensor(np.full(_bytes(row), 0xFF, dtype="uint8"), _device(plan, slot))
    return flat._create_view(row["shape"], row["dtype"])


def _device(plan: Mapping[str, Any], slot: int) -> tvm.runtime.Device:
    return _place(plan, plan["slots"][slot]["device"])


def _place(plan: Mapping[str, Any], device: int) -> tvm.runtime.Device:
    row = plan["devices"][device]
    return tvm.runtime.Device(row["dl_type"], row["dl_id"])
