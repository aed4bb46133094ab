"""The instructions of one kernel a family: those of the target, whole vectors, no wider ones.

Nothing runs here, so the targets may be any that LLVM can compile for. A new family is a line in
`FAMILIES`.
"""

from __future__ import annotations

import re

import pytest
import tvm
from tvm import relax

from tests.kernels.helpers import AVX2, AVX512, SSE, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

NEON = tvm.target.Target(
    {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 1}
)
TARGETS = {"v4": AVX512, "v3": AVX2, "v2": SSE, "neon": NEON}

op = relax.op


def constant(*shape):
    return relax.const(random(1, *shape))


# Rule -> input shapes and what is computed.
FAMILIES = {
    "packed": (
        [(1, 8, 14, 14)],
        lambda x: op.nn.relu(op.nn.conv2d(x, constant(32, 8, 3, 3), padding=1)),
    ),
    "depthwise": (
        [(1, 8, 14, 14)],
        lambda x: op.clip(op.nn.conv2d(x, constant(8, 1, 3, 3), padding=1, groups=8), 0, 6),
    ),
    "gemm": ([(16, 64)], lambda x: op.matmul(x, constant(64, 64))),
    "dot": (
        [(2, 1, 64), (2, 33, 64)],
        lambda x, y: op.matmul(x, op.permute_dims(y, [0, 2, 1])),
    ),
    "pool": ([(1, 8, 15, 32)], lambda x: op.nn.max_pool2d(x, (3, 3), (1, 1))),
    "rows": ([(8, 64)], lambda x: op.nn.softmax(x, -1)),
    "transpose": ([(16, 64)], lambda x: op.nn.relu(op.permute_dims(x, [1, 0]))),
    "generic": ([(8, 64), (8, 64)], lambda x, y: op.nn.relu(op.add(x, y))),
}
# What a family's inner loop must have, in the vectors of the target.
ARITHMETIC = {
    "v4": {"multiply-add": r"vfn?m(add|sub)\w*ps\s.*%zmm", "any": r"v(add|max|mul)ps\s.*%[yz]mm"},
    "v3": {"multiply-add": r"vfn?m(add|sub)\w*ps\s.*%ymm", "any": r"v(add|max|mul)ps\s.*%ymm"},
    "v2": {"multiply-add": r"\bmulps\s.*%xmm", "any": r"\b(add|max|mul)ps\s.*%xmm"},
    "neon": {
        "multiply-add": r"\bfml[as]\s+v\d+\.4s",
        "any": r"\bf(add|max|maxnm|mul|mla|cm[gl][te])\s+v\d+\.4s",
    },
}
# What is not vectorised yet: a tile of 8 x 8 floats takes all 16 registers of SSE, so LLVM moves
# single values and applies what is fused to each.
SCALAR = {("transpose", "v2")}
# What only wider units have: registers, and with AVX-512 masks and sixteen more of each kind.
FOREIGN = {
    "v3": r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])",
    "v2": r"%[yz]mm|%k[0-7]\b|\bv[a-z]+ps\s",
}


def assembly(family, target):
    """Assembly of the family's kernel and the rule that scheduled it."""
    shapes, body = FAMILIES[family]
    lowered = LowerToTasks(list(TARGETS.values()))(model(shapes, body))
    (kernel,) = kernels(lowered).values()
    scheduled = schedule_kernel(kernel, target)
    mod = tvm.IRModule({"kernel": scheduled.with_attr("global_symbol", "kernel")})
    return build(mod, target).inspect_source("asm"), rule_of(scheduled)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_of_the_target(family, name):
    text, rule = assembly(family, TARGETS[name])
    assert rule == family
    multiplies = family in ("packed", "depthwise", "gemm", "dot")
    wanted = ARITHMETIC[name]["multiply-add" if multiplies else "any"]
    assert bool(re.search(wanted, text)) != ((family, name) in SCALAR), wanted
    if name in FOREIGN:
        assert not re.search(FOREIGN[name], text)
