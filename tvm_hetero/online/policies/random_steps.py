"""Random choices that are functions: of the setting's seed and how many were made before."""

from __future__ import annotations

import random

from tvm_hetero.online.configuration import Configuration, neighbours
from tvm_hetero.online.policy import Setting


def drawer(setting: Setting, count: int) -> random.Random:
    """Random numbers of the `count`-th trial, the same ones each time."""
    return random.Random(setting.seed * 1_000_003 + count)


def random_neighbour(
    setting: Setting, configuration: Configuration, count: int
) -> Configuration | None:
    """Any configuration one step away; None if there is none."""
    found = list(neighbours(configuration, setting.places))
    return drawer(setting, count).choice(found) if found else None
