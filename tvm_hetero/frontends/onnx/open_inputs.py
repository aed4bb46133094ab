"""Inputs whose dimensions are still open, and the options that would close them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import ValueInfoProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.dimensions import is_closed, shape_text
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.suggested_shapes import Shapes, suggest_shapes
from tvm_hetero.util.untrusted_names import printable


@dataclass(frozen=True)
class UnshapedInputs:
    """Inputs with open dimensions, and shapes that the model takes for them if some are known."""

    inputs: tuple[ValueInfoProto, ...]
    shapes: Shapes | None

    @property
    def options(self) -> list[str]:
        """The options of the command line that give each of them a shape."""
        return [
            f"--shape {shlex.quote(f'{printable(v.name)}={self._dims(v)}')}" for v in self.inputs
        ]

    def _dims(self, value: ValueInfoProto) -> str:
        if self.shapes is not None:
            return "x".join(map(str, self.shapes[value.name]))
        dims = value.type.tensor_type.shape.dim
        return "x".join(str(d.dim_value) if d.HasField("dim_value") else "?" for d in dims) or "?"


def find_open(
    model: onnx.ModelProto, inputs: Sequence[ValueInfoProto], limits: OnnxLimits
) -> UnshapedInputs | None:
    """Return the inputs that are open, with shapes for them; None where there are none.

    Parameters
    ----------
    model : onnx.ModelProto
        To which shapes were applied as far as they are given.
    inputs : sequence of ValueInfoProto
        Its inputs but for initializers.
    limits : OnnxLimits
        Caps for trying shapes.
    """
    unknown = tuple(value for value in inputs if not is_closed(value))
    if not unknown:
        return None
    found = suggest_shapes(model, inputs, limits)
    shapes = None if found is None else {value.name: found[value.name] for value in unknown}
    return UnshapedInputs(unknown, shapes)


def refuse_open(found: UnshapedInputs | None) -> None:
    """Refuse open dimensions; the text has all options that are needed.

    Raises
    ------
    ModelError
        There are some.
    """
    if found is None:
        return
    listed = ", ".join(f"'{printable(v.name)}' {shape_text(v)}" for v in found.inputs)
    said = f"The model leaves dimensions of its inputs open: {listed}. A placement is for one shape"
    options = " ".join(found.options)
    if found.shapes is None:
        raise ModelError(
            f"{said}: pass {options} with numbers in place of '?' (none of the usual sizes fits "
            "this model: look at where it comes from)."
        )
    python = ", ".join(f"'{printable(name)}': {dims}" for name, dims in found.shapes.items())
    raise ModelError(
        f"{said}. One that fits: {options} on the command line, shapes={{{python}}} in Python."
    )
