"""The reference has every verb, every option and every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from docs.site.api_pages import api_page, api_pages
from docs.site.cli_page import cli_page
from docs.site.http_page import http_page
from tvm_hetero.cli.main import app
from tvm_hetero.serve.http.openapi import whole_document

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def sections():
    parts = re.split(r"^## (.+)$", cli_page(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_every_option_of_a_verb_is_told(sections, verb):
    section = sections[verb]
    for param in COMMANDS[verb].params:
        if param.name == "help" or getattr(param, "hidden", False):
            continue
        names = [param.metavar] if param.param_type_name == "argument" else param.opts
        for name in filter(None, names):
            escaped = re.escape(name.replace("|", "\\|"))
            assert re.search(rf"[` ]{escaped}[ ,`]", section), name
        assert "Sentinel" not in section and "<function" not in section


def test_a_default_is_told_and_what_has_to_be_given(sections):
    assert re.search(r"`--batch [^`]+` \| .*default: 1", sections["partition"])
    assert re.search(r"`-o, --output NET.hetero` \| .*\[required\]", sections["partition"])
    assert "```text\ntvm-hetero partition [OPTIONS] MODEL\n```" in sections["partition"]


def test_every_route_and_every_object_of_the_server_is_told():
    page, document = http_page(), whole_document()
    for path, methods in document["paths"].items():
        assert all(f"| `{method.upper()} {path}` |" in page for method in methods)
    for name in document["components"]["schemas"]:
        assert page.count(f"\n## {name}\n") == 1
    assert "| `inputs` (required) | array of [InputTensor](#inputtensor) |" in page
    assert "| `tvm-hetero-timeout-us` | header | integer | Microseconds" in page
    assert "[InferRequest](#inferrequest), `application/octet-stream`" in page


def test_every_public_name_is_documented_once():
    pages, shown = {}, set()
    for page in api_pages():
        pages[page.package] = api_page(page, shown)
    listed = (ROOT / "tests" / "data" / "public_api.txt").read_text().splitlines()
    names = {re.split(r"[(:]| = ", line.removeprefix("class "))[0] for line in listed}
    everything = "\n".join(pages.values())
    for name in names:
        package, _, last = name.rpartition(".")
        if package not in pages:
            continue  # a member, which its class shows
        assert f"{package}.{last}" in pages[package] or f"`{last}`" in pages[package], name
    directives = re.findall(r"^\.\. auto\w+:: (.+)$", everything, re.M)
    assert len(directives) == len(set(directives)) > 60
    assert "tvm_hetero.Platform" in directives and "tvm_hetero.platform.Platform" not in directives
