"""Operators that ONNX Runtime writes as standard ones, though ONNX has none of the name.

Its optimizer puts ``SimplifiedLayerNormalization`` into the default domain, and
``LayerNormalization`` also into models of opsets before 17.  They are given its own domain, where
their rewriters are, before anything asks ONNX about them.
"""

from __future__ import annotations

import onnx

from tvm_hetero.frontends.onnx.opsets import DEFAULT_DOMAINS, opset_version

RUNTIME_OPERATORS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""Their names."""

_DOMAIN = "com.microsoft"


def own_domain(model: onnx.ModelProto) -> None:
    """Give such nodes the domain of ONNX Runtime, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        Of which the structure is checked.
    """
    opset = opset_version(model)
    own = {f.name for f in model.functions if f.domain in DEFAULT_DOMAINS}
    found = [
        node
        for node in model.graph.node
        if node.domain in DEFAULT_DOMAINS
        and node.op_type in RUNTIME_OPERATORS - own
        and not onnx.defs.has(node.op_type, opset)
    ]
    for node in found:
        node.domain = _DOMAIN
    if found and all(entry.domain != _DOMAIN for entry in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
