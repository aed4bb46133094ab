"""A few documents of the harness; `make fuzz` draws as many as there is time for."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.documents import check


def test_documents_are_read_or_refused_and_both_languages_agree(tmp_path: Path) -> None:
    read = [check(seed, tmp_path) for seed in range(150)]
    assert 0 < sum(read) < len(read)
