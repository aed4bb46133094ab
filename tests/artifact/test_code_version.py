"""An artifact is taken by the code that it was built by, and refused by any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tvm_hetero.artifact.code_version import code_version, join_version, source_digest
from tvm_hetero.artifact.manifest import versions

PACKAGE = Path(__file__).parents[2] / "tvm_hetero"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package with a room that is a link, one that counts, and one that does not."""
    root = tmp_path / "package"
    for name in ("executor/native.py", "cli/main.py", "include/plan.h", "__init__.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "lower.py").write_text("# lower\n")
    (root / "passes").symlink_to("../passes")
    return root


@pytest.mark.parametrize("name", ["executor/native.py", "include/plan.h", "passes/lower.py"])
def test_an_edited_source_is_another_version(package: Path, name: str) -> None:
    before = source_digest(package)
    with (package / name).open("a") as file:
        file.write("# edited\n")
    assert source_digest(package) != before


def test_a_renamed_source_is_another_version(package: Path) -> None:
    before = source_digest(package)
    (package / "executor/native.py").rename(package / "executor/other.py")
    assert source_digest(package) != before


def test_what_no_artifact_depends_on_does_not_count(package: Path) -> None:
    before = source_digest(package)
    (package / "cli/main.py").write_text("# edited\n")
    (package / "_version.py").write_text("version = '9.9.9'\n")
    (package / "executor/__pycache__").mkdir()
    (package / "executor/__pycache__/native.py").write_text("")
    (package / "executor/native.so").write_bytes(b"compiled")
    assert source_digest(package) == before


def test_a_wheel_with_folders_in_place_of_links_is_the_same_version(
    package: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(package, tmp_path / "wheel", symlinks=False))
    assert not (copied / "passes").is_symlink()
    assert source_digest(copied) == source_digest(package)


@pytest.mark.parametrize("version", ["0.2.0", "1.0", "1.2.3rc1", "1.2.3.post1"])
def test_a_release_is_known_by_its_number(version: str) -> None:
    assert join_version(version, "abc") == f"{version}+src.abc"


@pytest.mark.parametrize(
    "version", ["0+unknown", "0.1.dev606+g720db8af6", "0.1.1.dev2", "0.1.0+d20261125"]
)
def test_between_releases_the_sources_alone_decide(version: str) -> None:
    assert join_version(version, "abc") == "unreleased+src.abc"


def test_artifacts_and_nodes_compare_the_code_of_this_package() -> None:
    assert code_version().endswith(f"+src.{source_digest(PACKAGE)}")
    assert versions()["tvm_hetero"] == code_version()
