"""A Relay model of an old TVM, on the devices of this machine.

Run it from the repository, after ``make setup``:

    .venv/bin/python tutorials/from_relay.py [MODEL.json [MODEL.params]]

MODEL.json is what ``tvm.ir.save_json(mod)`` of TVM 0.19 or older gave, before ``relay.build``;
MODEL.params what ``relay.save_param_dict(params)`` gave. Without arguments it takes a small
network that TVM 0.17 saved, whose outputs it recorded too.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np

import tvm_hetero as th
from tvm_hetero import relay
from tvm_hetero.frontends.relay.check import relay_check

EXAMPLE = Path(__file__).resolve().parent.parent / "tests" / "data" / "relay" / "mlp.relay.json"


def main(
    model: Path = EXAMPLE,
    target: Path = Path("demo/from_relay.hetero"),
    params: Path | None = None,
    cost_model: str = "profiled",
) -> float:
    """Tell the story; returns the largest difference from what the old TVM computed, relative."""
    # ---------------------------------------------------------------- 1. can it be read?
    # Everything that cannot is listed at once, with its place in the program. On the command
    # line: tvm-hetero relay-check MODEL.json
    report = relay_check(model)
    listed = ", ".join(f"{name} x{count}" for name, count in report.operators.items())
    print(f"1. {model.name}: {listed}")
    print("   " + ("\n   ".join(report.problems) or "every operator can be imported"))

    # ---------------------------------------------------------------- 2. the program
    # Without values, all parameters are inputs. The example's have made-up values.
    free = relay.frontend.from_json(model)
    values = made_up(free) if params is None else {}
    data = values.pop("data", None)
    mod = relay.frontend.from_json(model, params or values)
    inputs = [str(name) for name in mod["main"].attrs["hetero_input_names"]]
    print(f"2. {len(free['main'].params)} parameters, of which {inputs} stay inputs")

    # ---------------------------------------------------------------- 3. where what runs
    # Instead of a target: a platform. HeteroPartition measures each operator on each device and
    # writes the schedule into the module; respect_annotations=True would pin what is annotated
    # with on_device.
    together = relay.transform.HeteroPartition(
        platform=th.Platform.detect(), time_limit=10, cost_model=cost_model
    )
    mod = together(mod)
    print("3. partitioned")

    # ---------------------------------------------------------------- 4. build, save, load
    # Instead of relay.build and export_library, a folder.
    th.build(mod).save(target)
    print(f"4. wrote {target}")

    # ---------------------------------------------------------------- 5. run
    # Instead of set_input, run and get_output, one call.
    with th.load(target) as ex:
        for task, devices in list(ex.schedule.placement.items())[:4]:
            print(f"   {task:28} {', '.join(devices)}")
        feeds = ex.random_inputs(seed=0) if data is None else {"data": data}
        output = ex.run(feeds)[0].numpy()
    recorded = model.with_name(model.name.replace(".relay.json", ".outputs.npz"))
    if data is None or not recorded.is_file():
        print(f"5. output of {output.shape}")
        return 0.0
    expected = np.load(recorded)["arr_0"]
    difference = float(np.abs(output - expected).max() / np.abs(expected).max())
    print(f"5. largest difference from TVM 0.17: {difference:.1e} of the largest output")
    return difference


def made_up(mod: object) -> dict[str, np.ndarray]:
    """The values of all parameters for which the example's outputs were recorded."""
    main = mod["main"]  # type: ignore[index]
    names = [str(name) for name in main.attrs["hetero_input_names"]]
    found = {}
    for name, param in zip(names, main.params, strict=True):
        shape = [int(extent) for extent in param.ty.shape]
        random = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
        value = random.uniform(-1, 1, size=shape)
        if "var" in name:
            value = np.abs(value) + 0.5
        elif "gamma" in name:
            value = 1 + 0.1 * value
        elif len(shape) >= 2 and name != "data":
            value = value * np.sqrt(3.0 / np.prod(shape[1:]))
        found[name] = value.astype(str(param.ty.dtype))
    return found


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:3]]
    main(*given[:1], params=given[1] if len(given) > 1 else None)
