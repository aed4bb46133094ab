"""Two models at once on one empty cache; `make fuzz` takes more, and kills some."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.shared_cache import draw_model, run_round, value_faults

SEED = 5  # no one is killed, and the cache is kept


def test_models_built_at_once_compute_their_own_values(tmp_path: Path) -> None:
    assert run_round(SEED, tmp_path, 2) == []
    # What the harness is for would be seen.
    (tmp_path / "net0.onnx").rename(tmp_path / "net.onnx")
    (tmp_path / "net0.hetero").rename(tmp_path / "net.hetero")
    (tmp_path / "net1.hetero").rename(tmp_path / "net0.hetero")
    (tmp_path / "net.onnx").rename(tmp_path / "net0.onnx")
    assert any("off by" in fault for fault in value_faults(tmp_path, "net0"))


def test_the_seed_decides_the_model() -> None:
    first, again, other = (draw_model(seed) for seed in (3, 3, 4))
    assert first == again and first != other
