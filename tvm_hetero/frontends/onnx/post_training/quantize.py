"""Quantisation by ONNX Runtime, in a child: it is native code that runs an untrusted model.

    x  ->  DequantizeLinear(QuantizeLinear(x, s, z), s, z)     uint8, one scale and one zero point
    W  ->  DequantizeLinear(codes of W, s[o])                  int8, a scale by output channel

Only what a product or a convolution reads is rounded (whatever else reads the same value reads it
rounded, too): sums leave it in float32, and become codes where the next one reads them. Unsigned
bytes by signed ones is what ``vpdpbusd`` multiplies (`tvm_hetero.kernels.cpu.byte_dots`). Weights
keep all their bits on processors without it too: ONNX Runtime's ``reduce_range`` is for
instructions that saturate, and ours do not.

Ranges are the least and the greatest value on the calibration inputs.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.onnx.model.isolation import run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.tensors import all_tensors, byte_size
from tvm_hetero.frontends.onnx.post_training.prepare import QUANTIZED_TYPES
from tvm_hetero.platform.host import read_free_memory
from tvm_hetero.processes.forked_child import Section
from tvm_hetero.processes.step_notes import note_step
from tvm_hetero.util.leftovers import temporary_folder
from tvm_hetero.util.units import format_bytes
from tvm_hetero.util.untrusted_names import printable

Arrays = Mapping[str, "np.ndarray[Any, Any]"]

_PHASE, _RUN = "quantisation by ONNX Runtime", "ONNX Runtime"
# What ONNX Runtime has besides what a child that imports may use, at least, and CPU time a step.
_LEAST_MEMORY = 2 << 30
_STEP_SECONDS = 120.0
# protobuf writes no larger file; codes and names come to the weights.
_LARGEST_WEIGHTS = 3 << 29


def require_quantizer() -> None:
    """Load ONNX Runtime's quantiser, here and in no child.

    Raises
    ------
    UsageError
        It is not installed.
    """
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError:
        raise UsageError(
            "precision int8: models are quantised by ONNX Runtime, which is not installed; "
            "pip install 'tvm_hetero[onnxruntime]', or give a model that is quantised already"
        ) from None


def quantize_model(
    model: onnx.ModelProto,
    inputs: Sequence[Arrays],
    nodes: Sequence[str],
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> onnx.ModelProto:
    """Return a model whose `nodes` multiply codes of eight bits; the same call gives the same one.

    Parameters
    ----------
    model : onnx.ModelProto
        As `prepare_model` returns it.
    inputs : sequence of mapping of str to ndarray
        For calibration, at least one, of the model's shapes and types.
    nodes : sequence of str
        Names of nodes, among those of `quantizable_nodes`; at least one.
    limits : OnnxLimits
        Caps on what a model may make.

    Raises
    ------
    UsageError
        ONNX Runtime is not installed.
    ModelError
        ONNX Runtime refuses the model or does not survive it, or it is too large.
    """
    require_quantizer()
    refuse_large(model)
    with temporary_folder("tvm_hetero_quantize_") as folder:

        def work() -> list[Section]:
            # Of this child alone, which may end before it has tidied up.
            tempfile.tempdir = str(folder)
            with _refusals("quantise"):
                return [_quantized(model, inputs, nodes, folder)]

        (section,) = _in_child(work, model, limits)
    try:
        return onnx.ModelProto.FromString(bytes(section))
    except (DecodeError, UnicodeDecodeError, RuntimeError):
        raise ModelError(f"what {_PHASE} made is no model; please report it") from None


def float_outputs(
    model: onnx.ModelProto, inputs: Sequence[Arrays], limits: OnnxLimits = DEFAULT_LIMITS
) -> list[list[np.ndarray[Any, Any]]]:
    """Return the outputs of a model for each of the inputs, by ONNX Runtime: what errors are from.

    Parameters, errors
        As of `quantize_model`.
    """
    require_quantizer()
    refuse_large(model)

    def work() -> list[Section]:
        with _refusals("run"):
            return _outputs(model, inputs)

    sections = _in_child(work, model, limits)
    arrays = [_array(section) for section in sections]
    count = len(arrays) // max(1, len(inputs))
    return [arrays[i * count : (i + 1) * count] for i in range(len(inputs))]


def _array(section: Section) -> np.ndarray[Any, Any]:
    """Return what a child has written as .npy."""
    try:
        return np.asarray(np.lib.format.read_array(io.BytesIO(section), allow_pickle=False))
    except (ValueError, EOFError):
        raise ModelError(
            f"an output that {_RUN} gave is no array of numbers; please report it"
        ) from None


def refuse_large(model: onnx.ModelProto) -> None:
    """Refuse a model that is too large to be quantised.

    Raises
    ------
    ModelError
        Its weights are more than one file holds.
    """
    size = sum(byte_size(t.data_type, math.prod(t.dims), what) for what, t in all_tensors(model))
    if size > _LARGEST_WEIGHTS:
        raise ModelError(
            f"precision int8: the model's weights are {format_bytes(size)}, and ONNX Runtime "
            f"quantises at most {format_bytes(_LARGEST_WEIGHTS)} in one file; quantise it "
            "elsewhere and give the quantised file, or take bfloat16"
        )


def _in_child(work: Any, model: onnx.ModelProto, limits: OnnxLimits) -> list[Section]:
    """Return what `work` makes in a child that may use half of the free memory."""
    free = read_free_memory() or 0
    return run_isolated(
        work, model, limits, memory=max(_LEAST_MEMORY, free // 2), step_seconds=_STEP_SECONDS
    )


@contextmanager
def _refusals(doing: str) -> Iterator[None]:
    """Say of what ONNX Runtime raises that it cannot do something with the model."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = printable(" ".join(str(error).split()), 300)
        raise ModelError(
            f"ONNX Runtime cannot {doing} the model ({type(error).__name__}: {reason}); leave the "
            "precision at float32, or take bfloat16"
        ) from None


def _quantized(
    model: onnx.ModelProto, inputs: Sequence[Arrays], nodes: Sequence[str], folder: Path
) -> bytes:
    """Return the bytes of the quantised model."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    out = folder / "quantised.onnx"
    note_step(_PHASE, "The model")
    quantize_static(
        model,
        str(out),
        _Reader(inputs),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(QUANTIZED_TYPES),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=list(nodes),
        extra_options={"OpTypesToExcludeOutputQuantization": list(QUANTIZED_TYPES)},
    )
    return out.read_bytes()


class _Reader:
    """Hands out the inputs for calibration, one after the other, as ONNX Runtime asks for them."""

    def __init__(self, inputs: Sequence[Arrays]) -> None:
        self._inputs, self._next = inputs, 0

    def get_next(self) -> dict[str, Any] | None:
        """Return the next inputs, None behind the last."""
        note_step(_PHASE, f"Input {self._next}" if self._next < len(self._inputs) else "The model")
        if self._next == len(self._inputs):
            return None
        self._next += 1
        return dict(self._inputs[self._next - 1])

    def __iter__(self) -> _Reader:
        return self

    def __next__(self) -> dict[str, Any]:
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found


def _outputs(model: onnx.ModelProto, inputs: Sequence[Arrays]) -> list[Section]:
    """Return all outputs for each of the inputs, as .npy."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    note_step(_RUN, "The model")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    sections: list[Section] = []
    for i, values in enumerate(inputs):
        note_step(_RUN, f"Input {i}")
        for array in session.run(None, dict(values)):
            held = io.BytesIO()
            np.lib.format.write_array(held, np.asarray(array), allow_pickle=False)
            sections.append(held.getvalue())
    return sections
