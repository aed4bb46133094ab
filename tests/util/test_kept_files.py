"""Code in the cache: ours and as we wrote it, or made again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.kept_files import is_damaged, is_kept, keep

NOBODY = 65534


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "made").write_bytes(b"code" * 100)
    keep(tmp_path / "made", tmp_path / "k.so")
    return tmp_path / "k.so"


def _replace_by_link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, 7),
    "emptied": lambda path: os.truncate(path, 0),
    "changed": lambda path: path.write_bytes(b"evil" * 100),
    "gone": lambda path: path.unlink(),
    "writable by others": lambda path: path.chmod(0o666),
    "writable by the group": lambda path: path.chmod(0o664),
    "a link": _replace_by_link,
    "without hash": lambda path: path.with_name("k.so.sha256").unlink(),
    "another's hash": lambda path: path.with_name("k.so.sha256").write_text("0" * 64),
    "a hash that others write": lambda path: path.with_name("k.so.sha256").chmod(0o666),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def test_what_was_kept_is_taken(kept: Path) -> None:
    assert is_kept(kept)
    assert not is_damaged(kept)
    assert kept.read_bytes() == b"code" * 100
    assert {path.name for path in kept.parent.iterdir()} == {"k.so", "k.so.sha256"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_as_it_was_written_is_not_taken(kept: Path, damage: str) -> None:
    DAMAGES[damage](kept)
    assert not is_kept(kept)
    assert is_damaged(kept) != (damage == "without hash")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_is_not_taken(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(kept, NOBODY, NOBODY)
    assert not is_kept(kept)
    os.chown(kept.parent, NOBODY, NOBODY)
    monkeypatch.setenv("TVM_HETERO_CACHE", str(kept.parent))
    with pytest.raises(UsageError, match=r"belongs to user 65534.*set TVM_HETERO_CACHE"):
        cache_dir()


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_whatever_the_umask_nobody_else_writes_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "a" / "cache"))
    before = os.umask(umask)
    try:
        folder = cache_dir()
        (folder / "made").write_bytes(b"x")
        keep(folder / "made", folder / "k.so")
    finally:
        os.umask(before)
    for path in (folder, folder / "k.so", folder / "k.so.sha256"):
        assert stat.S_IMODE(path.stat().st_mode) & (0o022 | umask) == 0
    assert is_kept(folder / "k.so")


def test_a_folder_of_ours_that_others_could_write_to_is_closed_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path))
    assert stat.S_IMODE(cache_dir().stat().st_mode) == 0o755
