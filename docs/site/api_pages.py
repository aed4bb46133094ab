"""Pages of the Python API: what tests/data/public_api.txt lists, from docstrings.

Sphinx's autodoc reads the docstrings; these pages say which names, a page a package.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

import tvm_hetero
from tests.test_public_api import PACKAGES


@dataclass(frozen=True)
class ApiPage:
    """The public names of a package; `home` is where each of them is documented first."""

    package: str
    summary: str
    names: tuple[str, ...]


def api_pages() -> list[ApiPage]:
    """The package itself, then those below it."""
    pages = []
    for package in ("tvm_hetero", *PACKAGES):
        module = importlib.import_module(package)
        summary = (inspect.getdoc(module) or "").partition("\n")[0]
        pages.append(ApiPage(package, summary, tuple(_names(module))))
    return pages


def _names(module: ModuleType) -> Iterator[str]:
    """What is public in a module, less modules, in the order of the alphabet."""
    if module is tvm_hetero:
        listed = list(tvm_hetero._HOME)
    else:
        listed = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
    for name in sorted(listed):
        value = getattr(module, name)
        if not inspect.ismodule(value) and name != "annotations":
            yield name


def api_page(page: ApiPage, shown: set[str]) -> str:
    """A page in MyST Markdown; what another page has shown before is only named.

    Parameters
    ----------
    shown : full names of what pages before this one have, which grows.
    """
    module = importlib.import_module(page.package)
    parts, again = [f"# {page.package}", page.summary.replace("``", "`")], []
    for name in page.names:
        value = getattr(module, name)
        home = (
            f"{getattr(value, '__module__', page.package)}.{getattr(value, '__qualname__', name)}"
        )
        if home in shown and callable(value):
            again.append(f"`{name}`")
            continue
        shown.add(home)
        parts.append(_directive(page.package, name, value))
    if again:
        parts.insert(2, f"Also here, and described with the packages above: {', '.join(again)}.")
    return "\n\n".join(parts) + "\n"


def _directive(package: str, name: str, value: object) -> str:
    """What autodoc is asked for."""
    if inspect.isclass(value):
        simple = issubclass(value, Exception | Enum)
        options = "" if simple else "\n   :members:"
        return _rst(f".. autoclass:: {package}.{name}{options}")
    if callable(value) and hasattr(value, "__code__"):
        return _rst(f".. autofunction:: {package}.{name}")
    return _rst(f".. autodata:: {package}.{name}\n   :no-value:")


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def write_api(folder: Path) -> list[str]:
    """Write all pages; their names, for the table of contents."""
    shown: set[str] = set()
    written = []
    for page in api_pages():
        path = folder / f"{page.package}.md"
        path.write_text(api_page(page, shown), encoding="utf-8")
        written.append(path.stem)
    return written
