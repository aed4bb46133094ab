"""Nodes that are killed in the middle of generations: is every sequence whole, and when?"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass

from tvm_hetero.cluster.decoder import ClusterDecoder
from tvm_hetero.cluster.driver import Cluster

Prompts = list[list[int]]


@dataclass(frozen=True)
class Kill:
    """A generation in which a node was killed: after which token, what it took, what it would
    have taken undisturbed, whether all tokens are those of the undisturbed one.
    """

    node: str
    after: int
    seconds: float
    undisturbed_s: float
    equal: bool


def study(
    cluster: Cluster, decoder: ClusterDecoder, prompts: Prompts, count: int, kills: int,
    generations: int, seed: int = 0,
) -> list[Kill]:  # fmt: skip
    """Run generations; in so many of them, drawn at random, a node dies at a random token."""
    rng = random.Random(seed)
    begin = time.perf_counter()
    expected = [g.tokens for g in decoder.generate(prompts, count, stop=())]
    undisturbed = time.perf_counter() - begin
    chosen = set(rng.sample(range(generations), kills))
    found: list[Kill] = []
    for number in range(generations):
        if number not in chosen:
            made = decoder.generate(prompts, count, stop=())
            if [g.tokens for g in made] != expected:
                found.append(Kill("none", 0, 0.0, undisturbed, False))
            continue
        node = rng.choice(decoder.nodes)
        after = rng.randrange(1, len(prompts) * count)
        found.append(_with_kill(cluster, decoder, prompts, count, node, after, expected,
                                undisturbed))  # fmt: skip
        cluster.revive(node)
        decoder.recover(again=True)
    return found


def _with_kill(
    cluster: Cluster, decoder: ClusterDecoder, prompts: Prompts, count: int, node: str, after: int,
    expected: Prompts, undisturbed: float,
) -> Kill:  # fmt: skip
    told: list[tuple[int, int]] = []

    def tell(sequence: int, token: int) -> None:
        told.append((sequence, token))
        if len(told) == after:
            os.kill(cluster.pid(node), signal.SIGKILL)

    begin = time.perf_counter()
    made = decoder.generate(prompts, count, stop=(), told=tell)
    seconds = time.perf_counter() - begin
    if node not in cluster.lost:  # it died with the last tokens, and nobody missed it
        cluster.look()
    in_order = [[t for s, t in told if s == i] for i in range(len(prompts))]
    return Kill(node, after, seconds, undisturbed, [g.tokens for g in made] == expected == in_order)
