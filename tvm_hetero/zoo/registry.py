"""What is in the zoo: every name, the function that makes its graph, and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.zoo.articulated import modules, wide
from tvm_hetero.zoo.densenet import densenet
from tvm_hetero.zoo.experts import mixture
from tvm_hetero.zoo.files import LIGHT, LISTED, chain_of_layers, stored
from tvm_hetero.zoo.gnn import gnn
from tvm_hetero.zoo.inception import inception_v1, inception_v3, inception_v4
from tvm_hetero.zoo.language import decoder
from tvm_hetero.zoo.mobilenet import mobilenet_v1, mobilenet_v2
from tvm_hetero.zoo.random_graphs import layered, series_parallel
from tvm_hetero.zoo.randwire import randwire
from tvm_hetero.zoo.recurrent import recurrent
from tvm_hetero.zoo.resnet import resnet
from tvm_hetero.zoo.transformer import bert, gpt, vit
from tvm_hetero.zoo.unet import unet
from tvm_hetero.zoo.vgg import vgg
from tvm_hetero.zoo.work_graph import WorkGraph

# Parameters for which 0 means something; all other numbers have to be positive.
LARGEST = 10**9
"""Of any number: no network has more of anything, and products of a few are still exact."""
_MAY_BE_ZERO = frozenset({"seed", "context", "layers", "a", "b", "c"})


@dataclass(frozen=True)
class ZooEntry:
    """One name of the zoo.

    Attributes
    ----------
    what : a few words for a list; tasks : how many the graph has with the default parameters.
    make : the function that makes the graph, with `fixed` in place of some of its defaults.
    size : the parameter that ``--size`` sets, if there is one.
    """

    what: str
    tasks: int
    make: Callable[..., WorkGraph]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    size: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter and its default here."""
        signature = inspect.signature(self.make).parameters
        return {name: p.default for name, p in signature.items()} | dict(self.fixed)

    @property
    def is_decoder(self) -> bool:
        """Whether it is a step of a language model: a cache of tokens, weights to choose."""
        return {"context", "weights"} <= self.parameters.keys()


def _entry(
    what: str, tasks: int, make: Callable[..., WorkGraph], size: str = "", **fixed: Any
) -> ZooEntry:
    return ZooEntry(what, tasks, make, fixed, size)


def _light(name: str, tasks: int) -> ZooEntry:
    return _entry("light ONNX model, imported and fused", tasks, stored, model=name)


def _listed(name: str, tasks: int) -> ZooEntry:
    return _entry("layer shapes in a row, for pipelines", tasks, chain_of_layers, model=name)


def _step(what: str, tasks: int, make: Callable[..., WorkGraph], model: str) -> ZooEntry:
    """One decoding step of a language model."""
    return _entry(what, tasks, make, "layers", model=model)


ENTRIES: dict[str, ZooEntry] = {
    # Convolutional networks by their papers.
    "vgg16": _entry("VGG-16", 23, vgg, "depth", depth=16),
    "vgg19": _entry("VGG-19", 26, vgg, "depth", depth=19),
    "resnet18": _entry("ResNet-18", 25, resnet, "depth", depth=18),
    "resnet34": _entry("ResNet-34", 41, resnet, "depth", depth=34),
    "resnet50": _entry("ResNet-50", 58, resnet, "depth", depth=50),
    "resnet101": _entry("ResNet-101", 109, resnet, "depth", depth=101),
    "resnet152": _entry("ResNet-152", 160, resnet, "depth", depth=152),
    "inception-v1": _entry("GoogLeNet", 83, inception_v1, "resolution"),
    "inception-v3": _entry("Inception v3", 122, inception_v3, "resolution"),
    "inception-v4": _entry("Inception v4", 190, inception_v4, "b"),
    "densenet121": _entry("DenseNet-121, no concatenations", 129, densenet, "depth", depth=121),
    "densenet201": _entry("DenseNet-201, no concatenations", 209, densenet, "depth", depth=201),
    "mobilenet-v1": _entry("MobileNet", 31, mobilenet_v1, "resolution"),
    "mobilenet-v2": _entry("MobileNet v2", 56, mobilenet_v2, "resolution"),
    "unet": _entry("U-Net, 512 x 512", 29, unet, "levels"),
    # After import and fusion by this package.
    **{f"light-{name}": _light(name, tasks) for name, tasks in LIGHT.items()},
    # Lists of layers, without shortcuts: what papers on pipelines of stages divide.
    **{f"layers-{name}": _listed(name, tasks) for name, tasks in LISTED.items()},
    # Random wiring.
    "randwire-ws": _entry("random wiring, Watts-Strogatz", 106, randwire, "nodes", model="ws"),
    "randwire-er": _entry("random wiring, Erdos-Renyi", 106, randwire, "nodes", model="er"),
    "randwire-ba": _entry("random wiring, Barabasi-Albert", 106, randwire, "nodes", model="ba"),
    "randwire-c109": _entry(
        "random wiring, regular regime", 122, randwire, "nodes", channels=109, regime="regular"
    ),
    "randwire-c154": _entry(
        "random wiring, regular and wide", 122, randwire, "nodes", channels=154, regime="regular"
    ),
    "module": _entry("one Watts-Strogatz module of different tasks", 32, modules, "tasks"),
    "wide": _entry("eight modules of six chains", 187, wide, "blocks"),
    # Sequences, graphs and transformers.
    "lstm": _entry("LSTM, 2 layers, 32 steps", 68, recurrent, "steps", cell="lstm"),
    "gru": _entry("GRU, 2 layers, 32 steps", 68, recurrent, "steps", cell="gru"),
    "gnn": _entry("R-GCN on 1 % of ogbn-mag", 22, gnn, "layers"),
    "bert-base": _entry("BERT base, 128 tokens", 65, bert, "layers"),
    "bert-large": _entry(
        "BERT large, 128 tokens", 125, bert, "layers", layers=24, width=1024, heads=16
    ),
    "vit-base": _entry("vision transformer, base", 65, vit, "layers"),
    "vit-large": _entry(
        "vision transformer, large", 125, vit, "layers", layers=24, width=1024, heads=16
    ),
    "gpt-24": _entry("GPT, 24 x 1024, prefill of 128 tokens", 196, gpt, "layers"),
    "gpt-96": _entry(
        "GPT, 96 x 2048, prefill of 128 tokens", 772, gpt, "layers", layers=96, width=2048
    ),
    "gpt-24-decode": _entry(
        "GPT, 24 x 1024, one token after 1024", 196, gpt, "layers", tokens=1, context=1024
    ),
    # One decoding step of language models.
    "gpt2-small": _step("GPT-2 of 124M, one step", 28, decoder, "gpt2-small"),
    "gpt2-medium": _step("GPT-2 of 355M, one step", 52, decoder, "gpt2-medium"),
    "gpt2-large": _step("GPT-2 of 774M, one step", 76, decoder, "gpt2-large"),
    "gpt2-xl": _step("GPT-2 of 1.6B, one step", 100, decoder, "gpt2-xl"),
    "gpt3-125m": _step("GPT-3 125M, one step", 28, decoder, "gpt3-125m"),
    "gpt3-350m": _step("GPT-3 350M, one step", 52, decoder, "gpt3-350m"),
    "gpt3-760m": _step("GPT-3 760M, one step", 52, decoder, "gpt3-760m"),
    "gpt3-1.3b": _step("GPT-3 1.3B, one step", 52, decoder, "gpt3-1.3b"),
    "gpt3-2.7b": _step("GPT-3 2.7B, one step", 68, decoder, "gpt3-2.7b"),
    "gpt3-6.7b": _step("GPT-3 6.7B, one step", 68, decoder, "gpt3-6.7b"),
    "gpt3-13b": _step("GPT-3 13B, one step", 84, decoder, "gpt3-13b"),
    "gpt3-175b": _step("GPT-3 175B, one step", 196, decoder, "gpt3-175b"),
    "llama2-7b": _step("Llama 2 7B, one step", 68, decoder, "llama2-7b"),
    "llama2-13b": _step("Llama 2 13B, one step", 84, decoder, "llama2-13b"),
    "llama2-70b": _step("Llama 2 70B, one step", 164, decoder, "llama2-70b"),
    "llama3-8b": _step("Llama 3 8B, one step", 68, decoder, "llama3-8b"),
    "llama3-70b": _step("Llama 3 70B, one step", 164, decoder, "llama3-70b"),
    "llama3-405b": _step("Llama 3 405B, one step", 256, decoder, "llama3-405b"),
    "megatron-1t": _step("dense model of 1T, one step", 260, decoder, "megatron-1t"),
    "mixtral-8x7b": _step("Mixtral, 8 experts, one step", 356, mixture, "mixtral-8x7b"),
    "mixtral-8x22b": _step("Mixtral 8x22B, one step", 620, mixture, "mixtral-8x22b"),
    "deepseek-v3": _step("DeepSeek-V3, 256 experts, one step", 706, mixture, "deepseek-v3"),
    "kimi-k2": _step("Kimi K2 of 1T, 384 experts, one step", 726, mixture, "kimi-k2"),
    # For scaling.
    "layered": _entry("random layers", 1002, layered, "tasks"),
    "series-parallel": _entry("random series-parallel graph", 1002, series_parallel, "tasks"),
}


def entry(name: str) -> ZooEntry:
    """The entry of that name.

    Raises
    ------
    UsageError
        If there is none; the nearest is suggested.
    """
    if name not in ENTRIES:
        raise UsageError(f"the zoo has no problem {name!r}{nearest(name, ENTRIES)}")
    return ENTRIES[name]


def work_graph(name: str, **parameters: Any) -> WorkGraph:
    """The graph of that name.

    Raises
    ------
    UsageError
        If there is no such name, it has no such parameter, or a value makes no sense.
    """
    found = entry(name)
    known = found.parameters
    for key, value in parameters.items():
        if key not in known:
            raise UsageError(f"{name} has no parameter {key!r}{nearest(key, known)}")
        _check(f"{name}: {key}", value, known[key], zero=key in _MAY_BE_ZERO)
        if key != "seed" and isinstance(value, int | float) and value > LARGEST:
            raise UsageError(f"{name}: {key}: expected {LARGEST} at most, got {quote(value)}")
    return found.make(**(dict(found.fixed) | parameters))


def _check(where: str, value: object, default: object, *, zero: bool) -> None:
    """Refuse a value of another type than the default's, and numbers that are too small."""
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise UsageError(f"{where}: expected a value such as {default!r}, got {value!r}")
    if isinstance(value, int | float) and not (value > 0 or (zero and value == 0)):
        least = "of at least 0" if zero else "above 0"
        raise UsageError(f"{where}: expected a number {least}, got {value!r}")
