"""Which code an artifact is built by and loaded with: a version, and a digest of the sources.

`tvm_hetero.__version__` is written when the package is installed (setup.py takes it from git's
tags). In an editable install it is out of date after the next commit or edit, and between releases
it tells nothing about what a plan means. So artifacts, and the nodes of a cluster, compare what the
files are as well:

    0.2.0+src.5f0c1d2e3a4b          of a release
    unreleased+src.5f0c1d2e3a4b     of anything else

Between releases the sources alone decide: two clones of one commit accept each other's artifacts
whenever each was installed. The digest covers the package's Python files and C++ headers, but for
rooms on which the meaning of a plan does not depend (`_APART`: a solver's schedule is data in an
artifact, whoever found it). After an edit of a report nothing needs to be built again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tvm_hetero import __version__

# New rooms count until they are named here: better to refuse once too often.
_APART = frozenset(
    {"__pycache__", "bounds", "cli", "doctor", "planning", "report", "serve", "solvers", "zoo"}
)
_GENERATED = "_version.py"
_DIGITS = 12
_RELEASE = re.compile(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?")


@functools.cache
def code_version() -> str:
    """The version of the code that runs, as artifacts keep it; found once a process."""
    return join_version(__version__, source_digest(Path(__file__).parents[1]))


def join_version(version: str, digest: str) -> str:
    """A release by its number, all else as unreleased; what the files are, behind it."""
    release = version if _RELEASE.fullmatch(version) else "unreleased"
    return f"{release}+src.{digest}"


def source_digest(package: Path) -> str:
    """The first digits of a SHA-256 over the names and contents of a package's sources."""
    total = hashlib.sha256()
    for name in sorted(_sources(package)):
        content = hashlib.sha256((package / name).read_bytes())
        total.update(f"{name}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()[:_DIGITS]


def _sources(package: Path) -> Iterator[str]:
    """Names below `package`, links to folders followed: a wheel has folders in their place."""
    for folder, rooms, files in os.walk(package, followlinks=True):
        rooms[:] = [room for room in rooms if room not in _APART]
        for file in files:
            if file.endswith((".py", ".h")) and file != _GENERATED:
                yield (Path(folder) / file).relative_to(package).as_posix()
