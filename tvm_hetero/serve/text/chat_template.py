"""A chat as the one text that the model was trained on, by the template of the model's folder.

Templates are programs. They come from the folder that the user serves and never from a request, and
run in a sandbox that lets them change nothing (CVE-2025-61620, CVE-2025-62426 are what happened to
servers that took templates, or settings for them, from strangers).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.util.untrusted_names import printable

Messages = Sequence[Mapping[str, Any]]


class _GenerationBlock(jinja2.ext.Extension):
    """``{% generation %}``: marks for training what the model says; here it is its contents."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """Called by jinja2."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template.

    Attributes
    ----------
    source : its text.

    Parameters
    ----------
    names : of special tokens (``bos_token``, ...), which templates use.

    Raises
    ------
    ModelError
        If it is no template.
    """

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True,
            extensions=[_GenerationBlock, jinja2.ext.loopcontrols],
        )  # fmt: skip
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _now
        try:
            self._template = environment.from_string(source)
        # jinja2 makes Python of it, which may refuse that; a program that is not ours fails as it
        # likes, here and below (`1e999` becomes the name `inf`).
        except Exception as error:
            raise ModelError(
                f"the chat template cannot be read ({printable(error, 200)}); copy it from the "
                "model's folder again"
            ) from None
        self._names = dict(names)
        self.source = source

    def render(self, messages: Messages) -> str:
        """The text after which the model answers.

        Raises
        ------
        UsageError
            If the template refuses these messages.
        """
        try:
            return self._template.render(
                **self._names, messages=[dict(each) for each in messages],
                tools=None, documents=None, add_generation_prompt=True,
            )  # fmt: skip
        except Exception as error:
            raise UsageError(
                f"the model's chat template refuses these messages: {printable(error, 300)}"
            ) from None


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """As transformers has it: plain JSON, without HTML's escapes."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
