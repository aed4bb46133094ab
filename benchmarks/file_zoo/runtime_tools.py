"""What ONNX Runtime's own tools make of a model: quantised, halved, optimised, fused.

python -m benchmarks.file_zoo.runtime_tools OUT.onnx MODEL.onnx TOOL
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """The inputs of a model, a few times, each a little different."""

    def __init__(self, model: Path) -> None:
        with np.load(model.with_suffix(".npz")) as stored:
            given = dict(stored)
        self._left = iter([{k: _scaled(v, 0.8 + i / 10) for k, v in given.items()} for i in (0, 4)])

    def get_next(self) -> Any:
        """Return the next inputs, or None."""
        return next(self._left, None)


def _scaled(array: Any, factor: float) -> Any:
    return (array * factor).astype(array.dtype) if array.dtype.kind == "f" else array


def _static(out: Path, model: Path, form: Any, **rest: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quantization.quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(str(ready), str(out), Samples(model), form, **rest)


def _dynamic(out: Path, model: Path) -> None:
    quantization.quantize_dynamic(str(model), str(out))


def _fp16(out: Path, model: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(model), keep_io_types=True), out)


def _external(out: Path, model: Path) -> None:
    onnx.save(
        onnx.load(model), out, save_as_external_data=True, location=f"{out.stem}.data",
        size_threshold=0,
    )  # fmt: skip


def _optimised(out: Path, model: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(out)
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    onnxruntime.InferenceSession(model, options)


def _fused(out: Path, model: Path) -> None:
    from onnxruntime.transformers import optimizer

    found = optimizer.optimize_model(str(model), model_type="bert", num_heads=4, hidden_size=256)
    found.save_model_to_file(str(out))


def _4bit(out: Path, model: Path) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    found = MatMulNBitsQuantizer(onnx.load(model), block_size=32, is_symmetric=True)
    found.process()
    found.model.save_model_to_file(str(out))


_QDQ = quantization.QuantFormat.QDQ
_U8, _S8 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8
TOOLS: dict[str, Callable[[Path, Path], None]] = {
    "qdq": lambda out, model: _static(out, model, _QDQ, activation_type=_U8, weight_type=_S8),
    "qdq_per_channel": lambda out, model: _static(
        out, model, _QDQ, per_channel=True, activation_type=_S8, weight_type=_S8
    ),
    "qoperator": lambda out, model: _static(out, model, quantization.QuantFormat.QOperator),
    "dynamic": _dynamic,
    "fp16": _fp16,
    "external": _external,
    "optimised": _optimised,
    "fused": _fused,
    "4bit": _4bit,
}

if __name__ == "__main__":
    made, source = Path(sys.argv[1]), Path(sys.argv[2])
    TOOLS[sys.argv[3]](made, source)
    shutil.copy(source.with_suffix(".npz"), made.with_suffix(".npz"))
