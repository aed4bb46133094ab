"""A window in order is what sorting its samples gives, whatever came and went."""

from __future__ import annotations

import random

from tvm_hetero.util.sliding_window import SlidingWindow
from tvm_hetero.util.statistics import quantile


def test_quantiles_are_those_of_the_last_samples() -> None:
    draw = random.Random(0)
    window, kept = SlidingWindow(8), list[float]()
    for _ in range(400):
        if kept and draw.random() < 0.2:
            window.drop_oldest()
            kept.pop(0)
        else:
            sample = draw.choice([draw.random(), 0.5])  # equal ones, too
            window.add(sample)
            kept = [*kept, sample][-8:]
        assert len(window) == len(kept)
        if kept:
            assert window.largest == max(kept)
            for fraction in (0.0, 0.5, 0.9, 1.0):
                assert window.quantile(fraction) == quantile(sorted(kept), fraction)
