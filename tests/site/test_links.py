"""The check of links finds what leads nowhere."""

from __future__ import annotations

import pytest

from docs.site.links import broken_links

GOOD = """<html><head><link rel="stylesheet" href="style.css"></head><body>
<h1 id="top">x</h1><a href="#top">up</a> <a href="sub/b.html#there">b</a>
<a href="https://example.org/x">far</a> <a href="http://localhost:8000/">here</a>
<img src="data:image/png;base64,xx"></body></html>"""
FAULTS = {
    '<a href="c.html">': "c.html is not there",
    '<a href="sub/b.html#nowhere">': "sub/b.html#nowhere has no place 'nowhere'",
    '<a href="#nowhere">': "#nowhere has no place 'nowhere'",
    '<img src="x%20y.png">': "x%20y.png is not there",
    '<script src="https://cdn.example.org/x.js"></script>': "is loaded from elsewhere",
    '<link rel="stylesheet" href="https://fonts.example.org/x.css">': "is loaded from elsewhere",
    '<a href="http://example.org/">': "is not https",
    '<a href="ftp://example.org/">': "has the unknown scheme 'ftp'",
    '<a href="sub">': "sub is not there",  # a folder opens as a list from a disk
}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<p id="there"><a href="../a.html">a</a></p>')
    (tmp_path / "style.css").write_text("")
    (tmp_path / "a.html").write_text(GOOD)
    return tmp_path


def test_a_whole_site_has_no_fault(site):
    assert broken_links(site) == []


@pytest.mark.parametrize("reference", FAULTS)
def test_a_broken_reference_is_found(site, reference):
    page = site / "a.html"
    page.write_text(page.read_text().replace("</body>", f"{reference}</body>"))
    (fault,) = broken_links(site)
    assert fault.startswith("a.html: ") and FAULTS[reference] in fault


def test_a_name_with_blanks_is_found(site):
    (site / "x y.png").write_bytes(b"")
    (site / "a.html").write_text('<img src="x%20y.png">')
    assert broken_links(site) == []
