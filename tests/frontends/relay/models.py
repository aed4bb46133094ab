"""Saved Relay programs: where they are, and the values of their parameters.

The five programs that TVM 0.17 saved lie beside the repository; the smallest of them is in
tests/data too, so that there always is one.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.models import two_cpus
from tvm_hetero.frontends.relay.core.program import RelayProgram, RelayTensorType
from tvm_hetero.frontends.relay.read import read
from tvm_hetero.platform import Platform

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "relay"
SHARED = ROOT.parent / "shared" / "relay"
FOLDER = SHARED if SHARED.is_dir() else DATA
NAMES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.relay.json"))


def value(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The value that a parameter had when the outputs were recorded (shared/relay/README.md)."""
    random = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    v = random.uniform(-1, 1, size=shape)
    if "var" in name:
        v = np.abs(v) + 0.5
    elif "gamma" in name:
        v = 1 + 0.1 * v
    elif len(shape) >= 2 and name != "data":
        v = v * np.sqrt(3.0 / np.prod(shape[1:]))
    return v.astype(dtype)


def values(program: RelayProgram) -> dict[str, np.ndarray]:
    """The values of all parameters of ``main``, the input ``data`` among them."""
    found = {}
    for var in program.functions["main"].params:
        assert isinstance(var.type, RelayTensorType)
        found[var.name] = value(var.name, tuple(n or 0 for n in var.type.shape), var.type.dtype)
    return found


def recorded(name: str) -> tuple[Path, dict[str, np.ndarray], np.ndarray]:
    """A program's file, the values of its parameters, and what TVM 0.17 computed."""
    path = FOLDER / f"{name}.relay.json"
    output = np.load(FOLDER / f"{name}.outputs.npz")["arr_0"]
    return path, values(read(path)[0]), output


def unlike_cpus() -> Platform:
    """Two places of this machine with unlike instructions; the figures are made up."""
    platform = two_cpus()
    kinds = (("x86-64-v3", 2e11), ("x86-64-v2", 1e11))
    return replace(
        platform,
        devices=tuple(
            replace(
                device,
                target={"kind": "llvm", "mcpu": cpu},
                peak_flops=flops,
                bandwidth=2e10,
                launch=2e-6,
            )
            for device, (cpu, flops) in zip(platform.devices, kinds, strict=True)
        ),
    )
