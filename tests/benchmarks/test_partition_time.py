"""The benchmark of what a user waits for, small."""

from __future__ import annotations

from benchmarks import partition_time


def test_a_model_is_partitioned_with_an_empty_cache_and_with_a_full_one() -> None:
    cold, warm = partition_time.main(["--small"])
    assert (cold.cache, warm.cache, cold.mode) == ("cold", "warm", "quick")
    assert cold.kernels == warm.kernels > 3
    for row in (cold, warm):
        assert {"Lower", "Measure", "Solve", "Compile", "Save"} < set(row.seconds)
        assert sum(row.seconds.values()) <= row.wall_s * 1.001
        assert f"quick, {row.cache}: " in partition_time.line(row)
