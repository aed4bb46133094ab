"""Checks the links of a built site: every file is there, and every place in it.

What leads to other sites is not asked for (the check needs no network); it has to be https.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_REFERENCES = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
# Names in docs/ that are no places on the net: what a server on this machine answers.
_HERE = ("localhost", "127.0.0.1")


@dataclass
class ReadPage:
    """What a page refers to (tag, reference) and the places that can be referred to in it."""

    references: list[tuple[str, str]] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = ReadPage()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.page.places.update(filter(None, (given.get("id"), given.get("name"))))
        if reference := given.get(_REFERENCES.get(tag, "")):
            self.page.references.append((tag, reference))


def read_page(path: Path) -> ReadPage:
    """Read a file of HTML."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def broken_links(site: Path) -> list[str]:
    """A line for each reference of a page that leads nowhere, or that loads something from afar."""
    pages = {path.resolve(): read_page(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site.resolve())}: {reference} {fault}"
        for path, page in pages.items()
        for tag, reference in page.references
        for fault in _faults(tag, reference, path, pages)
    ]


def _faults(tag: str, reference: str, path: Path, pages: dict[Path, ReadPage]) -> Iterator[str]:
    """What is wrong with a reference."""
    parts = urlsplit(reference)
    if parts.scheme in ("http", "https"):
        # A text that links elsewhere is fine; what is loaded has to lie beside the page.
        if tag != "a" and not (tag == "link" and "w3.org" in parts.netloc):
            yield "is loaded from elsewhere"
        elif parts.scheme == "http" and parts.hostname not in _HERE:
            yield "is not https"
        return
    if parts.scheme in ("mailto", "data"):
        return
    if parts.scheme:
        yield f"has the unknown scheme {parts.scheme!r}"
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        yield "is not there"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
        yield f"has no place {parts.fragment!r}"
