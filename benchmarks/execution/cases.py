"""Models and platforms on which plans are measured.

Models are ONNX, so that ONNX Runtime can run each of them too: light models with seeded random
weights, cut off before a softmax (where random weights saturate), and randomly wired networks.

A randomly wired network (arXiv 1904.01569; the paper's small regime) is what
`tvm_hetero.zoo.randwire` describes to the solvers, with numbers in it. Its nodes are a weighted
sum, a ReLU and a separable 3x3 convolution; batch normalisation is left out, since inference folds
it into the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.execution.logits import logits_of
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.quick import ASSUMED
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.host import available_cores
from tvm_hetero.zoo.random_wiring import neighbours_of, wires

SEED = 0
RANDWIRE = "randwire"
# One stage of four nodes on 32x32 pixels: what the tests build.
TINY = "tiny"


def make_model(name: str) -> onnx.ModelProto:
    """A light model by its name, `RANDWIRE` (224x224 pixels, 3 x 32 nodes) or `TINY`."""
    if name == RANDWIRE:
        return randwire(nodes=32, channels=78, pixels=224)
    if name == TINY:
        return randwire(nodes=4, channels=8, pixels=32, stages=1)
    return logits_of(randomize_weights(load_model(light_models()[name]), SEED))


def with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model for `batch` elements at once, as ONNX Runtime likes it best.

    The first dimension of inputs, and of shapes to which the model reshapes, is the batch's.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    weights = {row.name: row for row in graph.initializer}
    for name in {node.input[1] for node in graph.node if node.op_type == "Reshape"}:
        dims = numpy_helper.to_array(weights[name]).copy()
        dims[0] = batch if dims[0] == 1 else dims[0]
        weights[name].CopyFrom(numpy_helper.from_array(dims, name))
    for row in graph.input:
        if row.name not in weights:
            row.type.tensor_type.shape.dim[0].dim_value = batch
    for row in graph.output:
        row.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return made


def two_devices(mcpus: Sequence[str | None] = ()) -> Platform:
    """One device on each of the first two cores; `mcpus` as `Platform.detect` takes them."""
    return _cpus(2, mcpus)


def two_core_teams() -> Platform:
    """Each of the first two cores, and both together."""
    first = sorted(available_cores())[:2]
    platform = Platform.detect(teams="1,2", cores=first)
    return Platform(tuple(d for d in platform.devices if d.kind == "llvm"), name=platform.name)


def one_device(cores: int) -> Platform:
    """One device that has the first `cores` cores."""
    (device,) = _cpus(1, (), cores).devices
    return Platform((device,), name=f"{cores}-cores")


def with_links(platform: Platform, *, small: bool) -> Platform:
    """With links as they are measured, or as is assumed for a small run.

    To measure takes longer than all else of one, and beside many programs more than its limit.
    """
    return measure_links(platform, assumed=ASSUMED if small else None)


def _cpus(devices: int, mcpus: Sequence[str | None], cores: int = 2) -> Platform:
    first = sorted(available_cores())[:cores]
    platform = Platform.detect(devices, mcpus, cores=first)
    cpus: tuple[Device, ...] = tuple(d for d in platform.devices if d.kind == "llvm")
    return Platform(cpus, name=platform.name)


def randwire(
    nodes: int, channels: int, pixels: int, stages: int = 3, seed: int = SEED
) -> onnx.ModelProto:
    """A randomly wired network (Watts-Strogatz, as the paper's best), as ONNX."""
    net = NetBuilder(seed)
    x = net.conv("input", 3, channels // 2, stride=2)
    x = net.conv(x, channels // 2, channels, stride=2)
    made = channels
    for stage in range(stages):
        x = _stage(net, x, nodes, made, channels << stage, 10 * seed + stage)
        made = channels << stage
    x = net.conv(net.add("Relu", x), made, 1280, size=1)
    x = net.add("Flatten", net.add("GlobalAveragePool", net.add("Relu", x)))
    weights = [net.weight((1280, 1000), 1 / 1280), net.weight((1000,), 0.01)]
    return net.model({net.add("Gemm", x, *weights): [1, 1000]}, pixels)


def _stage(net: NetBuilder, x: str, nodes: int, before: int, channels: int, seed: int) -> str:
    """Nodes that read none of their stage read `x` and halve height and width."""
    reads, last = neighbours_of(nodes, wires("ws", nodes, seed))
    made: list[str] = []
    for node in range(nodes):
        mine = [made[i] for i in reads[node]]
        width = channels if mine else before
        y = net.add("Relu", net.weighted_sum(mine or [x]))
        y = net.conv(y, width, width, stride=1 if mine else 2, groups=width)
        made.append(net.conv(y, width, channels, size=1))
    return net.weighted_sum([value for value, is_last in zip(made, last, strict=True) if is_last])


class NetBuilder:
    """Nodes and weights of an ONNX graph in the making; values are known by their names."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._rectified: set[str] = set()

    def add(self, kind: str, *reads: str, **attributes: object) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(reads), [name], **attributes))
        if kind in ("Relu", "LeakyRelu"):
            self._rectified.add(name)
        return name

    def weight(self, shape: tuple[int, ...], variance: float) -> str:
        values = self._rng.standard_normal(shape) * np.sqrt(variance)
        return self.constant(values.astype(np.float32))

    def conv(
        self, x: str, reads: int, makes: int, size: int = 3, stride: int = 1, groups: int = 1
    ) -> str:
        """A convolution that keeps the size of activations (a ReLU halves their square)."""
        shape = (makes, reads // groups, size, size)
        gain = 2 if x in self._rectified else 1
        weights = [self.weight(shape, gain / np.prod(shape[1:])), self.weight((makes,), 0.01)]
        return self.add(
            "Conv", x, *weights, group=groups, kernel_shape=[size, size],
            strides=[stride, stride], pads=[size // 2] * 4,
        )  # fmt: skip

    def weighted_sum(self, values: Sequence[str]) -> str:
        """The sum of `values`, each times a number of its own."""
        share = 1 / np.sqrt(len(values))
        scales = share * self._rng.uniform(0.5, 1.5, len(values)).astype(np.float32)
        terms = [
            self.add("Mul", value, self.constant(np.array([scale], np.float32)))
            for value, scale in zip(values, scales, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = self.add("Add", total, term)
        return total

    def model(
        self,
        outputs: Mapping[str, Sequence[int]],
        pixels: int,
        channels: int = 3,
        name: str = RANDWIRE,
    ) -> onnx.ModelProto:
        """The network so far; `outputs` have their shapes with them."""
        shape = [1, channels, pixels, pixels]
        reads = [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)]
        makes = [
            helper.make_tensor_value_info(end, TensorProto.FLOAT, list(extents))
            for end, extents in outputs.items()
        ]
        graph = helper.make_graph(self._nodes, name, reads, makes, self._weights)
        opset = helper.make_opsetid("", 13)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)

    def constant(self, values: NDArray[np.float32]) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name
