"""Kernels as text: as they go to a node that is to measure them (`tvm_hetero.cluster.costs`)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import tvm

from tvm_hetero.kernels import operations  # noqa: F401  (what is read may name them)
from tvm_hetero.passes.kernel import Kernel


def kernels_to_text(kernels: Sequence[Kernel]) -> str:
    """Kernels as text."""
    module = tvm.IRModule({kernel.name: kernel.func for kernel in kernels})
    rows = [
        {"name": k.name, "flops": k.flops, "bytes": k.bytes, "constants": list(k.constants)}
        for k in kernels
    ]
    return json.dumps({"kernels": rows, "module": tvm.ir.save_json(module)})


def kernels_from_text(text: str) -> list[Kernel]:
    """The kernels of a text."""
    document = json.loads(text)
    module = tvm.ir.load_json(document["module"])
    return [
        Kernel(row["name"], module[row["name"]], row["flops"], row["bytes"],
               tuple(row["constants"]))
        for row in document["kernels"]
    ]  # fmt: skip
