"""Of Python: this package's version, what it needs, and which of its extras are there.

Only whether a package is there is looked at: versions are for ``pip check``.

What each extra consists of is read from the metadata of the installed package, where setup.py put
it; a source tree that was never installed has none.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata

from tvm_hetero import __version__
from tvm_hetero.doctor.finding import Finding

_PACKAGE = "tvm_hetero"
# For developers: what the tests and the build need.
_APART = ("build", "test")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def examine_packages() -> Iterator[Finding]:
    """What is found of this package, its requirements and its extras."""
    yield Finding("version", f"tvm-hetero {__version__} on Python {platform.python_version()}")
    try:
        required = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "extras", "unknown: this is no installed package", "pip install . in the repository"
        )
        return
    groups = group_requirements(required)
    missing = _missing(groups.pop("", ()))
    lack = f"pip install {' '.join(missing)}" if missing else ""
    what = f"without {', '.join(missing)}" if missing else "there; pip check compares versions"
    yield Finding("requirements", what, lack, is_fault=bool(missing))
    for extra in sorted(groups.keys() - set(_APART)):
        yield _extra(extra, groups[extra])


def _extra(extra: str, packages: Iterable[str]) -> Finding:
    """An extra that is not there is no fault: who wants it knows from this line how."""
    missing = _missing(packages)
    found = f"pip install '{_PACKAGE}[{extra}]' adds {', '.join(missing)}" if missing else "there"
    return Finding(f"extra {extra}", found)


def group_requirements(required: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Names of packages by the extra that asks for them; those that all need by "".

    >>> group_requirements(["numpy", 'jinja2; extra == "serve"', 'uvloop>=1; extra == "serve"'])
    {'': ('numpy',), 'serve': ('jinja2', 'uvloop')}
    """
    groups: dict[str, dict[str, None]] = {}
    for line in required:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name is not None:
            groups.setdefault(extra.group(1) if extra else "", {})[name.group()] = None
    return {extra: tuple(names) for extra, names in groups.items()}


def _missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
