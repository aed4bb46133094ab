"""Formulas as MathML, which browsers draw themselves: an extension of Sphinx.

Others load a script from the net, or need LaTeX.
"""

from __future__ import annotations

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def setup(app: Any) -> dict[str, bool]:
    """Offer it as ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_inline(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _write_block(writer: Any, node: Any) -> None:
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="formula" tabindex="0">{formula}</div>\n')
    raise SkipNode
