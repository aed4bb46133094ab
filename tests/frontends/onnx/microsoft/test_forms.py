"""What is taken of each contributed operator: refused by name beyond, and told in the docs.

``python -m tests.frontends.onnx.microsoft.test_forms`` prints the table of
docs/microsoft-operators.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from tests.frontends.onnx.contributed import Draw, one_node, rewritten
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.microsoft.forms import FORMS, ContributedForm

PAGE = Path(__file__).parents[4] / "docs" / "microsoft-operators.md"
# Those that ONNX Runtime keeps in the default domain.
STANDARD = {"LayerNormalization", "SimplifiedLayerNormalization"}


def schemas() -> dict[str, Any]:
    """ONNX Runtime's own description of each operator that is taken."""
    domain = {name: "" if name in STANDARD else "com.microsoft" for name in FORMS}
    return {
        schema.name: schema
        for schema in runtime.get_all_operator_schema()
        if schema.domain == domain.get(schema.name, "nowhere")
    }


def row(name: str, form: ContributedForm, schema: Any) -> str:
    """An operator in the table."""
    only = [f"{key} = {_shown(value)} only" for key, value in sorted(form.only.items())]
    attributes = [*sorted(form.attributes), *only]
    cells = (
        name,
        ", ".join(attributes) or "-",
        ", ".join(sorted(form.indifferent)) or "-",
        ", ".join(i.name for i in schema.inputs[form.operands :]) or "-",
        ", ".join(o.name for o in schema.outputs[form.results :]) or "-",
    )
    return "| " + " | ".join(cells) + " |"


def _shown(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else f"{value:g}"


def table() -> str:
    """The table of the page."""
    known = schemas()
    head = "| operator | attributes taken | without effect | operands refused | results refused |"
    rows = [row(name, FORMS[name], known[name]) for name in sorted(FORMS)]
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def test_the_page_says_what_is_taken() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "see the docstring of this file"


def test_each_attribute_that_onnx_runtime_has_is_accounted_for() -> None:
    known = schemas()
    assert known.keys() == FORMS.keys()
    for name, form in FORMS.items():
        said = [*form.attributes, *form.only, *form.indifferent]
        assert len(set(said)) == len(said), name
        assert set(said) == set(known[name].attributes), name


def test_what_lies_outside_of_a_form_is_refused_by_name() -> None:
    d = Draw()
    x = d.normal(2, 3)
    model, _ = one_node("Gelu", [x], secret=1)
    with pytest.raises(ModelError, match="has the attribute 'secret', which is not known"):
        rewritten(model)
    model, _ = one_node("Gelu", [x, x])
    with pytest.raises(ModelError, match="has 'x1' as operand 1, which is not taken"):
        rewritten(model)
    model, _ = one_node("Gelu", [x], results=2)
    with pytest.raises(ModelError, match="has 'y1' as result 1, which is not taken"):
        rewritten(model)
    operands = [x[None, None], d.below(3, 1, 1), *(d.normal(9, 1) for _ in range(2))]
    model, _ = one_node("RotaryEmbedding", operands, scale=0.5)
    with pytest.raises(ModelError, match=r"has scale = 0.5; only 1.0 is taken"):
        rewritten(model)


if __name__ == "__main__":
    print(table())
