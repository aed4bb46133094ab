"""The page of what a server answers over HTTP, from the document that it serves itself.

What `/openapi.json` says, in tables: routes, what they take and give, and the objects of JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tvm_hetero.serve.http.openapi import whole_document

Node = Mapping[str, Any]


def http_page() -> str:
    """All routes and schemas, in MyST Markdown."""
    document = whole_document()
    components = document["components"]
    parts = [
        "# HTTP",
        "Made from `/openapi.json`, which each server has. How models are asked: "
        "[Open Inference Protocol](../docs/open-inference.md); texts: [OpenAI](../docs/openai.md).",
        "## Routes",
        _table(("request", "what it does", "body → answer"), _routes(document)),
        "## Parameters",
        _table(
            ("name", "in", "type", "meaning"), map(_parameter, components["parameters"].values())
        ),
    ]
    for name, schema in components["schemas"].items():
        parts += [f"## {name}", _table(("key", "type", "meaning"), _properties(schema))]
    return "\n\n".join(parts) + "\n"


def _routes(document: Node) -> Iterable[tuple[str, ...]]:
    """A row for each request: method and path, summary, body, answer."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            bodies = (
                operation.get("requestBody", {}),
                operation.get("responses", {}).get("200", {}),
            )
            exchange = " → ".join(filter(None, map(_bodies, bodies)))
            yield f"`{method.upper()} {path}`", operation.get("summary", ""), exchange


def _bodies(node: Node) -> str:
    """The kinds of bodies; of JSON its schema."""
    return ", ".join(
        _type(content["schema"]) if kind == "application/json" else f"`{kind}`"
        for kind, content in node.get("content", {}).items()
    )


def _parameter(parameter: Node) -> tuple[str, ...]:
    text = parameter.get("description", "")
    return f"`{parameter['name']}`", parameter["in"], _type(parameter["schema"]), text


def _properties(schema: Node) -> Iterable[tuple[str, ...]]:
    """A row for each key of an object."""
    needed = schema.get("required", ())
    for key, value in schema.get("properties", {}).items():
        must = " (required)" if key in needed else ""
        yield f"`{key}`{must}", _type(value), value.get("description", "")


def _type(schema: Node) -> str:
    """A type in words; objects of our own are links to their sections."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return kind if isinstance(kind, str) else " or ".join(kind)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; nothing for no rows."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
