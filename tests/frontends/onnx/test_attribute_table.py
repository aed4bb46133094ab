"""The table of attributes: whole, without names that no operator has, and true."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.models import make
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion import registry
from tvm_hetero.frontends.onnx.model.attribute_table import (
    NO_EFFECT,
    OPERANDS,
    OURS,
    REFUSED,
    TVMS,
    honoured,
    refused_attribute,
)
from tvm_hetero.frontends.onnx.opsets import OLDEST_UNCONVERTED

OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


@cache
def history() -> dict[str, list[onnx.defs.OpSchema]]:
    """Every form of every standard operator."""
    found = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found[schema.name].append(schema)
    return found


@cache
def forms() -> dict[str, list[onnx.defs.OpSchema]]:
    """Each operator that we or TVM take, in its forms from opset 13 on."""
    rewritten = {
        operator
        for (domain, operator), function in registry._REWRITERS.items()
        # What is refused whatever its attributes are.
        if not domain and not function.__module__.endswith(".not_for")
    }
    taken = converted_operators() | rewritten
    found = {}
    for name in taken & history().keys():
        schemas = history()[name]
        before = [s.since_version for s in schemas if s.since_version <= OLDEST_UNCONVERTED]
        first = max(before, default=0)
        found[name] = [s for s in schemas if s.since_version >= first]
    return found


def test_every_attribute_of_every_operator_is_in_the_table() -> None:
    missing = {
        name: sorted(left)
        for name, schemas in forms().items()
        if (
            left := {a for schema in schemas for a in schema.attributes}
            - honoured(name)
            - REFUSED.get(name, frozenset())
        )
    }
    assert not missing, "say in attribute_table.py who honours these, or refuse them"


def test_every_optional_operand_is_in_the_table() -> None:
    missing = {
        name: sorted(left)
        for name, schemas in forms().items()
        if (left := _optional(schemas[-1]) - OPERANDS.get(name, frozenset()))
    }
    assert not missing, "say in attribute_table.py that these are honoured"


def _optional(schema: onnx.defs.OpSchema) -> set[str]:
    newest = onnx.defs.get_schema(schema.name)
    return {operand.name for operand in newest.inputs if operand.option == OPTIONAL}


@pytest.mark.parametrize("table", [OURS, TVMS, NO_EFFECT, REFUSED])
def test_the_table_names_nothing_that_onnx_does_not_know(table: dict[str, frozenset[str]]) -> None:
    for operator, names in table.items():
        assert names <= {a for s in history()[operator] for a in s.attributes}, operator


@cache
def importer_texts() -> dict[str, str]:
    """The text of each class of TVM's importer."""
    from tvm.relax.frontend.onnx import onnx_frontend

    text = Path(onnx_frontend.__file__).read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: "\n".join(lines[node.lineno : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }


def test_what_is_said_to_be_honoured_by_tvm_is_read_by_it() -> None:
    from tvm.relax.frontend.onnx import onnx_frontend

    importers = onnx_frontend._get_convert_map()
    for operator, names in TVMS.items():
        source = "".join(importer_texts().get(c.__name__, "") for c in importers[operator].__mro__)
        # Reductions of scatters are read by a function beside the class.
        unread = {n for n in names if f'"{n}"' not in source} - {"reduction"}
        assert not unread, operator


def test_an_attribute_that_no_one_honours_is_refused_by_name() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1, sharpness=2.0)
    assert "has the attribute sharpness, which is not honoured" in str(refused_attribute(node))
    assert refused_attribute(helper.make_node("Softmax", ["x"], ["y"], axis=-1)) is None


def test_a_model_with_a_sparse_or_text_constant_is_refused() -> None:
    text = helper.make_node("Constant", [], ["t"], "said", value_string=b"no")
    same = helper.make_node("Cast", ["t"], ["y"], to=1)
    model = make([text, same], {"x": [1]}, ["y"])
    with pytest.raises(ModelError, match=r"'said' \(Constant\) has the attribute value_string"):
        from_onnx(model)
