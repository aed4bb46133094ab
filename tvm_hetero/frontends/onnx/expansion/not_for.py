"""Operators that tvm_hetero is not for: each is refused with why, and what to do."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites(
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
)
def refuse_random(r: Rewriting) -> bool:
    """No two implementations draw the same numbers, whatever the seed."""
    r.refuse(
        "draws random numbers, which tvm_hetero does not: what they are would be another matter "
        "in each runtime. Export the model for inference, or make the numbers an input of it."
    )


@rewrites("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer")
def refuse_text(r: Rewriting) -> bool:
    """Text is no tensor of numbers."""
    r.refuse(
        "works on text; tvm_hetero computes with numbers. Cut it off the model, and do it before "
        "the model runs."
    )


@rewrites("ImageDecoder")
def refuse_image_files(r: Rewriting) -> bool:
    """A file is no tensor of pixels."""
    r.refuse(
        "decodes image files; tvm_hetero computes with tensors. Cut it off the model, and decode "
        "images before the model runs."
    )
