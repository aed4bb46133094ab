"""How a refused node is told of: what it is, what of it is not taken, and what can be done.

Whoever reads it mostly did not make the model, but downloaded it: he can look for another form of
it, fix an input, or ask its makers; he cannot rewrite it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import AttributeProto, NodeProto, ValueInfoProto

from tvm_hetero.errors import LIST_LINE, ModelError
from tvm_hetero.frontends.onnx.model.dependence import how_to_fix
from tvm_hetero.frontends.onnx.model.mutable_graph import attribute
from tvm_hetero.util.untrusted_names import printable

ANOTHER_FORM = (
    "If there is another form of the model (of another opset, or as it was before an optimizer or "
    "quantizer), take that."
)

_MOST = 20
# Operands that say how to compute, by the names that onnx's schemas give them.
_SETTINGS = frozenset(
    {
        "axes", "axis", "block_mask", "constant_value", "depth", "dft_length", "ends", "frame_step",
        "frame_length", "group", "high", "k", "limit", "delta", "start", "low", "max", "min",
        "max_output_boxes_per_class", "output_shape", "pads", "ratio", "repeats", "roi", "scales",
        "sequence_lens", "shape", "size", "sizes", "split", "starts", "steps", "to",
    }
)  # fmt: skip


def refuse_all(refusals: Sequence[str], opset: int, cause: BaseException | None = None) -> None:
    """Raise what was refused, all of it at once; nothing where nothing was.

    Parameters
    ----------
    refusals : sequence of str
        A sentence or more for each node.
    opset : int
        The model's.
    cause : BaseException, optional
        Of one of them, for whoever wants to see its traceback.

    Raises
    ------
    ModelError
        One text, or a list of them.
    """
    if not refusals:
        return
    if len(refusals) == 1:
        said = "" if "opset" in refusals[0] else f" (The model is of opset {opset}.)"
        raise ModelError(refusals[0] + said) from cause
    more = len(refusals) - _MOST
    lines = [*refusals[:_MOST], *([f"... and {more} more"] if more > 0 else [])]
    first = f"{len(refusals)} nodes cannot be imported (opset {opset}):"
    raise ModelError(LIST_LINE.join([first, *lines])) from cause


def fault_text(what: str, error: Exception) -> str:
    """Return how a node is refused at which our own code failed."""
    reason = printable(" ".join(str(error).split()), 200)
    return (
        f"{what} meets a fault of tvm_hetero ({type(error).__name__}: {reason}). Please report "
        "it, with the model."
    )


def unknown_settings(node: NodeProto, constants: Iterable[str], opset: int) -> dict[str, str]:
    """Return the operands that say how a node computes and are no constants: value by meaning.

    Parameters
    ----------
    node : NodeProto
        Of the default domain.
    constants : iterable of str
        Names of constants.
    opset : int
        The model's.
    """
    if not onnx.defs.has(node.op_type, opset):
        return {}
    formal = onnx.defs.get_schema(node.op_type, opset, "").inputs
    known = set(constants)
    return {
        operand.name: name
        for operand, name in zip(formal, node.input, strict=False)
        if operand.name in _SETTINGS and name and name not in known
    }


def settings_text(
    settings: Mapping[str, str], makers: Mapping[str, NodeProto], inputs: Sequence[ValueInfoProto]
) -> str:
    """Return the rest of a sentence about a node whose settings are known only when it runs."""
    listed = " and ".join(f"its {k} from '{printable(v)}'" for k, v in settings.items())
    said = "which is" if len(settings) == 1 else "which are"
    advice = how_to_fix(settings.values(), makers, inputs)
    return f"takes {listed}, {said} known only when it runs. {advice}"


def form_of(node: NodeProto, operands: Sequence[str] = ()) -> str:
    """Return the attributes of a node, and the types of its operands, in words."""
    said = [f"{printable(a.name)} = {_shown(a, node)}" for a in node.attribute]
    attributes = f"attributes {', '.join(said)}" if said else "no attributes"
    return attributes + (f"; operands {', '.join(operands)}" if operands else "")


def _shown(given: AttributeProto, node: NodeProto) -> str:
    if given.HasField("g") or given.HasField("t") or given.graphs or given.tensors:
        return "..."
    value = attribute(node, given.name)
    return printable(value.decode(errors="replace") if isinstance(value, bytes) else value, 40)
