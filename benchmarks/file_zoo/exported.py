"""Exports of PyTorch and what ONNX Runtime's tools make of some: listed here, made in a child.

The dynamo exporter needs onnxscript, which is no dependency of ours: it goes into the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.file_zoo.cases import FLOAT16, FLOAT32, INT8, FileCase

ROOT = Path(__file__).resolve().parent.parent.parent
LEGACY, DYNAMO = "legacy", "dynamo"
_BOTH = (LEGACY, DYNAMO)
_ONNXSCRIPT = ("onnxscript==0.7.2", "onnx_ir")

# Model of `torch_layers` or `torch_models` -> exporters.
_TORCH = {
    "tiny-cnn": (LEGACY,), "bert": _BOTH, "distilbert": (LEGACY,), "albert": (DYNAMO,),
    "deberta": (LEGACY,), "modernbert": _BOTH, "t5-encoder": (LEGACY,), "gpt2-past": (LEGACY,),
    "llama": (DYNAMO,), "vit": _BOTH, "dinov2": (DYNAMO,), "clip-text": _BOTH,
    "clip-vision": (DYNAMO,), "swin": (LEGACY,), "segformer": (DYNAMO,), "convnext": (LEGACY,),
    "mobilevit": (DYNAMO,), "yolos": _BOTH, "dpt": (LEGACY,), "detr": (LEGACY,),
    "wav2vec2": (LEGACY,), "whisper-encoder": _BOTH, "mamba": (DYNAMO,),
    "mobilenet-v2": (LEGACY,), "resnet": (DYNAMO,), "efficientnet": (LEGACY,), "lstm": _BOTH,
    "gru-bidirectional": _BOTH, "rnn": (LEGACY,), "unet": (LEGACY,), "tcn": (LEGACY,),
    "conv3d": (DYNAMO,), "moe": (LEGACY,), "detection-head": (DYNAMO,), "grid-sample": (LEGACY,),
    "stft": (DYNAMO,), "einsum": (LEGACY,), "gnn": (DYNAMO,), "loop": (LEGACY,),
    "odd-slices": _BOTH,
}  # fmt: skip
# Made of an export by ONNX Runtime's tools: export, tool, tolerance.
_MADE = {
    "cnn-qdq": ("tiny-cnn-legacy", "qdq", INT8),
    "cnn-qdq-per-channel": ("tiny-cnn-legacy", "qdq_per_channel", INT8),
    "cnn-qoperator": ("tiny-cnn-legacy", "qoperator", INT8),
    "cnn-dynamic": ("tiny-cnn-legacy", "dynamic", INT8),
    "cnn-fp16": ("tiny-cnn-legacy", "fp16", FLOAT16),
    "cnn-external-data": ("tiny-cnn-legacy", "external", FLOAT32),
    "mobilenet-qdq": ("mobilenet-v2-legacy", "qdq", INT8),
    "bert-dynamic": ("bert-legacy", "dynamic", INT8),
    "bert-qdq": ("bert-legacy", "qdq", INT8),
    "bert-fp16": ("bert-legacy", "fp16", FLOAT16),
    "bert-optimised": ("bert-legacy", "optimised", FLOAT32),
    "bert-fused": ("bert-legacy", "fused", FLOAT32),
    "bert-4bit": ("bert-legacy", "4bit", INT8),
    "lstm-dynamic": ("lstm-legacy", "dynamic", INT8),
}
EXPORTED = [
    *(
        FileCase(f"torch/{name}-{exporter}", "torch", f"{name}-{exporter}.onnx")
        for name, exporters in _TORCH.items()
        for exporter in exporters
    ),
    *(
        FileCase(f"onnxruntime/{name}", "onnxruntime", f"{name}.onnx", tolerance=tolerance)
        for name, (_, _, tolerance) in _MADE.items()
    ),
]


def file_of_export(case: FileCase, cache: Path) -> Path:
    """Return where an export is, after making it if it is not there.

    Raises
    ------
    FileNotFoundError
        If it cannot be made; the exporter's last line says why.
    """
    folder = cache / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / case.file
    if path.exists():
        return path
    if case.source == "torch":
        name, _, exporter = path.stem.rpartition("-")
        extra = [_onnxscript(cache)] if exporter == DYNAMO else []
        _child(["torch_export", str(path), name, exporter], path, extra)
    else:
        model, tool, _ = _MADE[path.stem]
        made = FileCase(f"torch/{model}", "torch", f"{model}.onnx")
        source = str(file_of_export(made, cache))
        # The 4-bit quantiser needs onnx_ir.
        extra = [_onnxscript(cache)] if tool == "4bit" else []
        _child(["runtime_tools", str(path), source, tool], path, extra)
    return path


def _child(command: list[str], path: Path, extra: list[Path]) -> None:
    paths = [str(ROOT), *map(str, extra), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.file_zoo.{command[0]}", *command[1:]],
        capture_output=True, text=True, timeout=900, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )  # fmt: skip
    if done.returncode or not path.exists():
        path.unlink(missing_ok=True)
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise FileNotFoundError(f"{path.stem} cannot be made: {lines[-1]}")


def _onnxscript(cache: Path) -> Path:
    folder = cache / "onnxscript"
    if not (folder / "onnxscript").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, str(folder), *_ONNXSCRIPT], capture_output=True, timeout=600)
    return folder
