"""Machines that can be rented by the hour, variants of an image model, and questions about them.

A machine is one GPU of a server with its part of the processors, or a server without GPUs. Prices
are dollars an hour, on demand in us-east-1 in 2024, of the AWS instance that is named, divided by
its GPUs. Accuracies are ImageNet top-1 of torchvision's first weights (its table of pre-trained
models); that 16 bits cost `_HALF_COSTS` of it is our assumption.
"""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.choosing.traces import draw_load
from tvm_hetero import zoo
from tvm_hetero.planning.choosing import (
    ChoiceRequest,
    MachineOffer,
    ModelVariant,
    RequestClass,
    SloLimit,
)
from tvm_hetero.platform.model import Platform

# Server of the zoo, how many GPUs share its processors (0: none), price of one part.
_RENTED = {
    "t4": ("t4x4", 4, 3.912 / 4),  # g4dn.12xlarge
    "l4": ("l4x4", 4, 4.602 / 4),  # g6.12xlarge
    "v100": ("v100x4", 4, 12.24 / 4),  # p3.8xlarge
    "a100-40": ("a100-40x8", 8, 32.77 / 8),  # p4d.24xlarge
    "a100-80": ("a100x8", 8, 40.97 / 8),  # p4de.24xlarge
    "h100": ("h100x8", 8, 98.32 / 8),  # p5.48xlarge
    "xeon": ("xeon-x2", 0, 9.677),  # m7i.metal-48xl
    "epyc": ("epyc-x2", 0, 11.13),  # m7a.metal-48xl
}
_ACCURACY = {"resnet50": 76.13, "resnet152": 78.31, "vit-base": 81.07}
_HALF_COSTS = 0.05
# Of a class: the limit at p99 is drawn from the first two, s; the least accuracy from the others.
_CLASSES = {
    "interactive": (0.003, 0.02, (0.0, 76.0)),
    "normal": (0.02, 0.08, (76.0, 78.0)),
    "background": (0.1, 0.5, (78.3, 81.0)),
}
_RATES = (1000.0, 10000.0)


def machines(available: dict[str, int]) -> tuple[MachineOffer, ...]:
    """The machines of `_RENTED` that can be had."""
    return tuple(
        MachineOffer(name, part_of(server, gpus), available[name], price)
        for name, (server, gpus, price) in _RENTED.items()
        if name in available
    )


def part_of(server: str, gpus: int) -> Platform:
    """One GPU and its part of the processors; all of a server that has none."""
    whole = zoo.platform(server)
    if not gpus:
        return whole
    cpu, gpu = whole.device("cpu"), whole.device("gpu0")
    part = replace(
        cpu,
        memory=None if cpu.memory is None else cpu.memory // gpus,
        peak_flops=(cpu.peak_flops or 0.0) / gpus,
        bandwidth=(cpu.bandwidth or 0.0) / gpus,
        watts=(cpu.watts or 0.0) / gpus,
        idle_watts=cpu.idle_watts / gpus,
    )
    links = tuple(link for link in whole.links if {link.src, link.dst} == {"cpu", "gpu0"})
    return Platform((part, gpu), links, (), server)


def variants(models: tuple[str, ...] = tuple(_ACCURACY)) -> tuple[ModelVariant, ...]:
    """Each model in 32 and in 16 bits."""
    return tuple(
        ModelVariant(f"{model}-{bits}", _ACCURACY[model] - less, model, f"float{bits}")
        for model in models
        for bits, less in ((32, 0.0), (16, _HALF_COSTS))
    )


def question(
    kind: str, seed: int, seconds: float, *, small: bool = False, goal: str = "price"
) -> ChoiceRequest:
    """A question with three classes of loads, SLOs and accuracies that are drawn.

    Whatever the goal is: the same ones.
    """
    draw = random.Random(f"{kind} {seed}")
    classes = []
    for i, (name, (least, most, floors)) in enumerate(_CLASSES.items()):
        rate = _log_uniform(draw, *_RATES) / (50 if small else 1)
        requests = draw_load(kind, rate, seconds, 100 * seed + i)
        slo = (SloLimit("latency", 99, _log_uniform(draw, least, most)),)
        floor = draw.choice(floors) if not small else 0.0
        classes.append(RequestClass(name, requests, slo, floor, rate=rate))
    available = {name: draw.randint(1, 6) for name in _RENTED}
    if small:
        available = {name: available[name] for name in ("t4", "l4")}
    return ChoiceRequest(
        variants(("resnet50",) if small else tuple(_ACCURACY)),
        machines(available),
        tuple(classes),
        goal,
        seconds=seconds,
        batches=(1, 8) if small else (1, 4, 16),
        name=f"{kind} {seed}",
    )


def _log_uniform(draw: random.Random, least: float, most: float) -> float:
    return least * float(most / least) ** draw.random()
