"""How much slower devices are while all of them compute: measured without a model.

Devices share what is not a core's own: the last level of cache, the memory's bandwidth, the power
and heat that a package may have. So a kernel that was measured alone takes longer in a plan that
keeps every device busy, by a factor that is a device's `interference` in a platform file.

The factor depends on what is run. Where a network is there, it is measured on that network
(`tvm_hetero.cost_models.in_network.costs`). For a platform file it is measured on a small stand-in
that keeps a core busy with the two things that networks do:

    dense layers    many operations a byte of activations, and weights that were last read one
                    inference ago: they come from memory, in time to be multiplied
    additions       over tensors that fill a second-level cache: nearly no operations a byte

Two thirds of its time are for the first, as in the networks that we measured; a platform whose
devices fight over memory has a factor well above 1 with it, this one 1.0 to 1.03.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.cost_models.in_network.costs import measure_in_place
from tvm_hetero.cost_models.in_network.run import Rounds
from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.devices.target import require_present
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Fabric
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost

if TYPE_CHECKING:
    import tvm

# Rows of activations, width, and how many dense layers: 4 MiB of weights each.
_ROWS, _WIDTH, _LAYERS = 48, 1024, 8
# Of the additions: elements of a tensor, and how many of them.
_LONG, _SUMS = 1 << 18, 8


def measure_interference(
    platform: Platform, progress: Progress | None = None, rounds: Rounds = Rounds()
) -> Platform:
    """The platform with the interference of each device of this machine, as it is now.

    Devices without a target, those that are the only one of their node, and boards that are reached
    by RPC keep what they have.

    Raises
    ------
    ProfileError
        If a device is not here.
    """
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import make_problem

    devices = tuple(d for d in platform.devices if d.target is not None and d.rpc is None)
    if len(devices) < 2:
        return platform
    for device in devices:
        require_present(platform, device)
    # What a copy costs is no matter here, but inputs must reach every device.
    fabrics = tuple(Fabric(node) for node in dict.fromkeys(device.node for device in devices))
    linked = replace(platform, devices=devices, links=(), fabrics=(*fabrics, Fabric(None)))
    prepared = make_problem(stand_in(), linked, PartitionOptions(cost_model=_Alike()))
    found = measure_in_place(prepared.module, prepared.problem, None, progress, rounds)
    factors = {device.name: found.interference(device.name) for device in devices}
    return replace(
        platform,
        devices=tuple(
            replace(device, interference=round(factor, 2))
            if (factor := factors.get(device.name)) is not None
            else device
            for device in platform.devices
        ),
    )


class _Alike:
    """A cost model that does not measure: the network shall only be placed."""

    name = "alike"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, _progress: Progress | None = None
    ) -> Costs:
        """A second for everything everywhere."""
        row = {device: Cost(((1, 1.0),)) for device in platform.names}
        return {kernel.name: dict(row) for kernel in kernels}


def stand_in(seed: int = 0) -> tvm.IRModule:
    """The small network; see the file's text."""
    from tvm import relax

    rng = np.random.default_rng(seed)
    x = relax.Var("x", relax.TensorType((_ROWS, _WIDTH), "float32"))
    y = relax.Var("y", relax.TensorType((_LONG,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            dense, total = x, y
            for _ in range(_LAYERS):
                weight = rng.standard_normal((_WIDTH, _WIDTH), np.float32) / np.sqrt(_WIDTH)
                product = relax.op.matmul(dense, relax.const(weight.astype(np.float32)))
                dense = builder.emit(relax.op.nn.relu(product))
            for _ in range(_SUMS):
                # Read from the other end, so that two sums are not one kernel.
                total = builder.emit(relax.op.add(relax.op.flip(total, axis=0), y))
            result = builder.emit_output(relax.Tuple([dense, total]))
        builder.emit_func_output(result)
    return builder.get()
