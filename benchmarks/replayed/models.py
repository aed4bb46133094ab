"""The models that are replayed, each by a function that makes it anew from seeds.

What a front end writes down of where its files lay is taken away: it is another folder in each run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tvm

from tests.frontends.relay import models
from tests.small_decoders import tiny
from tvm_hetero import relay
from tvm_hetero.compiler.build import SOURCE
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.frontends.relay.read import read

RELAY = "mlp"
# In Relay's text form: what the recorded model does not have.
RELAY_TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 16, 16), float32], %w: Tensor[(16, 8, 3, 3), float32],
          %d: Tensor[(16, 1, 3, 3), float32], %s: Tensor[(16), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %1 = nn.bias_add(%0, %s);
  %2 = nn.relu(%1);
  %3 = nn.conv2d(%2, %d, padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3]);
  %4 = nn.max_pool2d(%2, pool_size=[3, 3], strides=[1, 1], padding=[1, 1, 1, 1]);
  %5 = add(%3, %4);
  %6 = nn.global_avg_pool2d(%5);
  %7 = nn.batch_flatten(%6);
  (nn.softmax(%7), transpose(%5, axes=[0, 2, 3, 1]))
}
"""
_TEXT_SHAPES = {"w": (16, 8, 3, 3), "d": (16, 1, 3, 3), "s": (16,)}


def light(name: str) -> tvm.IRModule:
    """A light model of the onnx wheel with seeded weights."""
    return _placeless(relay.frontend.from_onnx(light_models()[name], random_weights=0))


def decoder(family: str, changes: dict[str, Any], how: dict[str, Any]) -> tvm.IRModule:
    """A tiny random decoder: `changes` of its configuration, imported as `how` says."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny(family, Path(folder) / family, **changes)
        return _placeless(relay.frontend.from_huggingface(path, **how))


def _placeless(module: tvm.IRModule) -> tvm.IRModule:
    """A module that does not say where its file lies, which is elsewhere in each checkout."""
    module["main"] = module["main"].without_attr(SOURCE)
    return module


def relay_json() -> tvm.IRModule:
    """The recorded Relay module, from JSON."""
    path = models.DATA / f"{RELAY}.relay.json"
    values = models.values(read(path)[0])
    params = {name: value for name, value in values.items() if name != "data"}
    return _placeless(relay.frontend.from_json(path, params))


def relay_text() -> tvm.IRModule:
    """A small convolutional network in Relay's text."""
    params = {name: models.value(name, shape, "float32") for name, shape in _TEXT_SHAPES.items()}
    return _placeless(relay.frontend.from_text(RELAY_TEXT, params))


def exported(how: str, tokens: int) -> tvm.IRModule:
    """A decoder of one layer through ``torch.export``."""
    # PyTorch takes seconds to load, and only the whole replay has this.
    from tests.frontends.torch.test_export import LENGTH, STATES
    from tests.frontends.torch.test_export import exported as program

    return _placeless(
        relay.frontend.from_exported(program(how, tokens), states=STATES, length=LENGTH)
    )
