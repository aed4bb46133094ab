"""Of Python: this package's version, what it needs, and which of its extras are there.

A package counts if it is there in a version that the requirement allows. What those packages need
in turn is for ``pip check``.

What each extra consists of is read from the metadata of the installed package, where setup.py put
it; a source tree that was never installed has none.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterable, Iterator
from importlib import metadata

from packaging.requirements import Requirement

from tvm_hetero import __version__
from tvm_hetero.doctor.finding import Finding

_PACKAGE = "tvm_hetero"
# For developers: what the tests and the build need.
_APART = ("build", "test")
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
    wrong = _wrong(groups.pop("", ()))
    what = "; ".join(wrong.values()) if wrong else "there, in versions that fit"
    yield Finding("requirements", what, _command(wrong) if wrong else "", is_fault=bool(wrong))
    for extra in sorted(groups.keys() - set(_APART)):
        yield _extra(extra, groups[extra])


def _extra(extra: str, required: Iterable[Requirement]) -> Finding:
    """An extra that is not there is no fault: who wants it knows from this line how."""
    wrong = _wrong(required)
    how = f"pip install '{_PACKAGE}[{extra}]'"
    return Finding(f"extra {extra}", f"{'; '.join(wrong.values())} ({how})" if wrong else "there")


def _command(wrong: Iterable[str]) -> str:
    return f"pip install {' '.join(shlex.quote(each) for each in wrong)}"


def group_requirements(required: Iterable[str]) -> dict[str, tuple[Requirement, ...]]:
    """Requirements by the extra that asks for them; those that all need by "".

    What is for another system or Python is left out.

    >>> groups = group_requirements(["numpy", 'jinja2; extra == "serve"'])
    >>> {extra: [each.name for each in every] for extra, every in groups.items()}
    {'': ['numpy'], 'serve': ['jinja2']}
    """
    groups: dict[str, list[Requirement]] = {}
    for line in required:
        each = Requirement(line)
        found = _EXTRA.search(line)
        extra = found.group(1) if found else ""
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            groups.setdefault(extra, []).append(each)
    return {extra: tuple(every) for extra, every in groups.items()}


def _wrong(required: Iterable[Requirement]) -> dict[str, str]:
    """What is missing or does not fit, in words, by what pip is to be given."""
    found: dict[str, str] = {}
    for each in required:
        wanted = f"{each.name}{each.specifier}"
        try:
            version = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            found[wanted] = f"without {each.name}"
            continue
        if not each.specifier.contains(version, prereleases=True):
            found[wanted] = f"{each.name} {version}, expected {each.specifier}"
    return found
