"""What a stranger needs: versions that mean something, metadata, guides that name real files."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import yaml

import tvm_hetero
from tests.try_extras import PROBES

ROOT = Path(__file__).parent.parent
BUILT_FROM = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
GUIDES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
COMMIT = ("-c", "user.name=A", "-c", "user.email=a@b.example", "commit", "--quiet", "--allow-empty")

SetupPy = Callable[..., str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one module that is built by our setup.py; without .git."""
    root = tmp_path / "tree"
    (root / "tvm_hetero").mkdir(parents=True)
    (root / "tvm_hetero" / "__init__.py").touch()
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, root)
    return root


def run(folder: Path, *command: str, **variables: str) -> str:
    """What a command prints; only what is set here tells it about versions and repositories."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SETUPTOOLS_SCM", "GIT_"))}
    done = subprocess.run(
        command, cwd=folder, env=kept | variables, check=True, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


def setup_py(folder: Path, *arguments: str, **variables: str) -> str:
    """The last line that setup.py prints."""
    return run(folder, sys.executable, "setup.py", *arguments, **variables).split("\n")[-1]


def commit(folder: Path, tag: str | None = None) -> str:
    """Commit all of a tree, and tag it; the short name of the commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed, which building does not need either")
    run(folder, "git", "init", "--quiet")
    run(folder, "git", "add", "--all")
    run(folder, "git", *COMMIT, "-m", "a step")
    if tag is not None:
        run(folder, "git", "tag", tag)
    return run(folder, "git", "rev-parse", "--short=7", "HEAD")


def test_a_tag_is_the_version(tree: Path) -> None:
    commit(tree, "v0.3.0")
    assert setup_py(tree, "--version") == "0.3.0"


def test_commits_after_a_tag_are_before_the_next_release(tree: Path) -> None:
    commit(tree, "v0.3.0")
    name = commit(tree)
    assert setup_py(tree, "--version").startswith(f"0.3.1.dev1+g{name}")


def test_a_clone_without_tags_has_a_version_with_its_commit(tree: Path) -> None:
    name = commit(tree)
    assert setup_py(tree, "--version").startswith(f"0.1.dev1+g{name}")


def test_a_copy_without_git_is_of_no_known_version(tree: Path) -> None:
    assert setup_py(tree, "--version") == "0+unknown"


def test_a_copy_in_another_projects_repository_does_not_take_its_version(
    tree: Path, tmp_path: Path
) -> None:
    commit(tmp_path, "v7.0.0")
    assert setup_py(tree, "--version") == "0+unknown"


def test_where_git_is_not_installed_a_clone_can_be_built(tree: Path, tmp_path: Path) -> None:
    commit(tree, "v0.3.0")
    (tmp_path / "nothing").mkdir()
    assert setup_py(tree, "--version", PATH=str(tmp_path / "nothing")) == "0+unknown"


def test_an_sdist_keeps_its_version(tree: Path, tmp_path: Path) -> None:
    commit(tree, "v0.3.0")
    setup_py(tree, "--quiet", "sdist", "--dist-dir", str(tmp_path / "dist"))
    (archive,) = (tmp_path / "dist").iterdir()
    assert archive.name == "tvm_hetero-0.3.0.tar.gz"
    # Without the filter, which Python 3.11.2, that of Debian 12, does not know.
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    assert setup_py(tmp_path / "unpacked" / "tvm_hetero-0.3.0", "--version") == "0.3.0"


def test_a_zip_file_of_a_commit_keeps_its_version(tree: Path, tmp_path: Path) -> None:
    for name in (".gitattributes", ".git_archival.txt"):
        shutil.copy(ROOT / name, tree)
    commit(tree, "v0.3.0")
    run(tree, "git", "archive", "--output", str(tmp_path / "tree.zip"), "HEAD")
    shutil.unpack_archive(tmp_path / "tree.zip", tmp_path / "unpacked")
    assert setup_py(tmp_path / "unpacked", "--version") == "0.3.0"


def test_a_wheel_says_its_version_and_the_sources_stay_as_they_are(
    tree: Path, tmp_path: Path
) -> None:
    commit(tree, "v0.3.0")
    setup_py(tree, "--quiet", "build_py", "--build-lib", str(tmp_path / "wheel"))
    written = tmp_path / "wheel" / "tvm_hetero" / "_version.py"
    assert written.read_text() == "version = '0.3.0'\n"
    assert not (tree / "tvm_hetero" / "_version.py").exists()


def test_without_a_compiler_an_sdist_is_built_without_libraries_and_a_checkout_is_not(
    tree: Path, tmp_path: Path
) -> None:
    """What schedules and judges needs none; who works in a checkout wants the executor."""
    (tmp_path / "nothing").mkdir()
    alone = {"PATH": str(tmp_path / "nothing"), "CXX": ""}
    setup_py(tree, "--quiet", "build_ext", "--build-lib", str(tmp_path / "made"), **alone)
    assert list((tmp_path / "made").rglob("*.so")) == []
    with pytest.raises(subprocess.CalledProcessError):
        setup_py(tree, "--quiet", "build_ext", "--inplace", **alone)


def test_importing_the_version_imports_nothing_heavy() -> None:
    code = "import sys, tvm_hetero; tvm_hetero.__version__; print(*sys.modules)"
    loaded = run(ROOT, sys.executable, "-c", code, PYTHONPATH=str(ROOT)).split()
    assert {"tvm", "numpy", "importlib.metadata"} & set(loaded) == set()
    assert re.match(r"\d+(\.\d+)*", tvm_hetero.__version__)


def metadata(tree: Path, tmp_path: Path) -> Message:
    """The metadata that setup.py makes of itself."""
    setup_py(tree, "--quiet", "egg_info", "--egg-base", str(tmp_path))
    text = (tmp_path / "tvm_hetero.egg-info" / "PKG-INFO").read_text(encoding="utf-8")
    return Parser().parsestr(text)


def minors(texts: list[str]) -> list[str]:
    """The Pythons that texts end with, in order."""
    return sorted(found[0] for text in texts if (found := re.search(r"3\.\d+$", text)))


def workflow() -> dict[str, Any]:
    """The steps of CI."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_ci_runs_the_pythons_that_the_metadata_names(tree: Path, tmp_path: Path) -> None:
    made = metadata(tree, tmp_path)
    claimed = minors(made.get_all("Classifier", []))
    matrix = workflow()["jobs"]["make"]["strategy"]["matrix"]["python"]
    assert claimed == sorted(matrix) == ["3.11", "3.12", "3.13"]
    assert made["Requires-Python"] == f">={claimed[0]}"
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert config["tool"]["ruff"]["target-version"] == f"py{claimed[0].replace('.', '')}"
    assert config["tool"]["mypy"]["python_version"] == claimed[0]


def test_ci_runs_the_readmes_two_commands_on_each_python() -> None:
    commands = [step["run"] for step in workflow()["jobs"]["make"]["steps"] if "run" in step]
    python = "PYTHON=python${{ matrix.python }}"
    assert commands == [f"make demo {python}", f"make test {python}"]


def test_ci_makes_the_site_and_tries_the_wheel_on_each_python() -> None:
    steps = workflow()["jobs"]["door"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    (oldest, *others) = sorted(workflow()["jobs"]["make"]["strategy"]["matrix"]["python"])
    made = [f"make {target} PYTHON=python{oldest}" for target in ("docs", "package")]
    tried = [f"python{each} tests/try_wheel.py dist/*.whl" for each in others]
    assert commands == [*made, *tried, f"python{oldest} tests/try_extras.py dist/*.whl"]
    (pythons,) = [step["with"]["python-version"] for step in steps if "setup-python" in str(step)]
    # What is named last is what `python` and `python3` are.
    assert pythons.split() == [*reversed(others), oldest]


def test_every_extra_that_users_have_is_tried(tree: Path, tmp_path: Path) -> None:
    extras = metadata(tree, tmp_path).get_all("Provides-Extra") or []
    assert set(extras) - {"build", "test"} == set(PROBES)


def test_the_metadata_tell_license_home_and_readme(tree: Path, tmp_path: Path) -> None:
    made = metadata(tree, tmp_path)
    assert made["License-Expression"] == "Apache-2.0"
    assert made.get_all("License-File") == ["LICENSE"]
    assert made["Description-Content-Type"] == "text/markdown"
    assert str(made.get_payload()).startswith("# tvm_hetero")
    links = " ".join(made.get_all("Project-URL", []))
    assert "https://github.com/tvm-hetero/tvm_hetero/issues" in links


def test_the_license_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License\n")
    assert "END OF TERMS AND CONDITIONS" in text


def test_build_tools_are_the_same_in_every_place() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {re.split(r"[<>=]", text)[0] for text in config["build-system"]["requires"]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (installed,) = re.findall(r"^\t\t(\"setuptools.*)$", makefile, re.M)
    assert {re.split(r"[<>=]", word.strip('"'))[0] for word in installed.split()} == needed
    assert "setuptools-scm" in needed


def test_the_citation_names_project_and_paper() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "license", "type"} <= cited.keys()
    assert cited["license"] == "Apache-2.0"
    (paper,) = cited["references"]
    assert "2308.00127" in paper["url"]
    assert [author["family-names"] for author in paper["authors"]] == ["Ghannane", "Abdelfattah"]


@pytest.mark.parametrize("kind", ["bug", "feature"])
def test_an_issue_form_asks_something(kind: str) -> None:
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{kind}.yml"
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    asked = [part for part in form["body"] if part.get("validations", {}).get("required")]
    assert asked


def named_paths(text: str) -> set[str]:
    """Files and folders that a guide names: links, and what stands between backticks or bare."""
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    words = re.findall(r"(?<![\w./-])((?:[\w.-]+/)+[\w.-]*\w(?:\.\w+)?/?|\w+\.md)", text)
    known = {path.name for path in ROOT.iterdir()}
    return {*links, *(word for word in words if word.split("/")[0] in known)}


@pytest.mark.parametrize("guide", GUIDES)
def test_every_path_that_a_guide_names_is_there(guide: str) -> None:
    paths = named_paths((ROOT / guide).read_text(encoding="utf-8"))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def packed_patterns() -> list[str]:
    """The patterns of setup.py's package_data, relative to the package."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "package_data":
            patterns: dict[str, list[str]] = ast.literal_eval(node.value)
            return patterns["tvm_hetero"]
    raise AssertionError("setup.py has no package_data")


def test_what_the_package_reads_goes_into_the_wheel() -> None:
    package = ROOT / "tvm_hetero"
    packed = {path for pattern in packed_patterns() for path in package.glob(pattern)}
    files = [
        Path(folder) / name
        for folder, _, names in os.walk(package, followlinks=True)
        for name in names
        if "__pycache__" not in folder and Path(folder).name != "_lib"
    ]
    others = {path for path in files if path.suffix not in (".py", ".pyc")}
    assert len(others) > 50
    assert sorted(others - packed) == []


def test_every_folder_with_python_is_a_package() -> None:
    """Else `find_packages` leaves it out, and what was imported here is missing in the wheel."""
    folders = {
        Path(folder)
        for folder, _, names in os.walk(ROOT / "tvm_hetero", followlinks=True)
        if any(name.endswith(".py") for name in names)
    }
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
