"""Who installs the package can build C++ programs with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvm_hetero.libinfo import find_include_path, find_libtvm_hetero_runtime

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What setuptools puts into a wheel but for the libraries, and the list of an sdist's files."""
    folder = tmp_path_factory.mktemp("packed")
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(folder)]
    build = ["build_py", "--build-lib", str(folder / "wheel")]
    subprocess.run([*command, *build], check=True, cwd=ROOT, capture_output=True, timeout=60)
    return folder


def test_the_paths_are_there() -> None:
    assert (Path(find_include_path()) / "tvm_hetero" / "model.h").is_file()
    assert Path(find_libtvm_hetero_runtime()).is_file()


def test_a_wheel_has_all_headers(packed: Path) -> None:
    headers = {path.name for path in (ROOT / "include" / "tvm_hetero").iterdir()}
    found = {path.name for path in (packed / "wheel/tvm_hetero/include/tvm_hetero").iterdir()}
    assert found == headers
    assert {"model.h", "executor.h", "search.h"} <= headers
    assert (packed / "wheel/tvm_hetero/libinfo.py").is_file()


def test_an_sdist_can_be_built_and_has_the_example(packed: Path) -> None:
    files = set((packed / "tvm_hetero.egg-info/SOURCES.txt").read_text().split("\n"))
    wanted = ["include/tvm_hetero/*.h", "src/**/*.cc", "src/**/*.h", "examples/cpp/*"]
    for pattern in wanted:
        paths = {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)}
        assert paths
        assert paths <= files
    assert {"CMakeLists.txt", "setup.py", "pyproject.toml"} <= files
