from __future__ import annotations

import pytest

from tvm_hetero.report.schedule.palette import OTHER, colour_families


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("fused_conv2d3_add7_relu2", "convolution"),
        ("conv2d", "convolution"),
        ("concatenate", "data movement"),
        ("fused_matmul_add", "matrix product"),
        ("max_pool2d", "pooling"),
        ("lrn", "normalisation"),
        ("relu", "elementwise"),
        ("copy", "copy"),
    ],
)
def test_known_kinds(kind: str, family: str) -> None:
    assert colour_families([kind, "conv2d"])[kind].name == family


def test_unknown_kinds_get_colours_by_how_often_they_occur() -> None:
    families = colour_families(["A", "B", "B", "copy", "", *"CDEFGH"])
    assert families["B"].fill == colour_families(["conv2d"])["conv2d"].fill
    assert families["A"].name == "A"
    assert families[""] is OTHER
    assert families["H"] is OTHER  # there are six spare colours
    assert len({families[kind].fill for kind in "ABCDEF"}) == 6


def test_unknown_kinds_among_known_ones_are_other() -> None:
    assert colour_families(["A", "conv2d"])["A"] is OTHER
