"""How far a decoder's logits are from those of transformers in float32, on texts that are given.

Every text is fed token by token whatever would have been generated (teacher forcing), so that one
wrong token does not spoil all that follow. Logits are compared by their mean distance, in standard
deviations of the right ones, and by how often the same token is the likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from tvm_hetero.decoders.decoder import Decoder


@dataclass(frozen=True)
class Accuracy:
    """Mean |difference| of logits over their deviation; share of equal likeliest tokens."""

    error: float
    same: float
    tokens: int


def texts_for(decoder_batch: int, vocabulary: int, length: int, seed: int = 1) -> np.ndarray:
    """Random texts, one for each slot."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, vocabulary, (decoder_batch, length)).astype(np.int64)


def right_logits(model: Path, texts: np.ndarray) -> np.ndarray:
    """The logits of transformers, [texts, length, vocabulary]."""
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.inference_mode():
        return loaded(torch.from_numpy(texts)).logits.numpy()


def accuracy(decoder: Decoder, texts: np.ndarray, right: np.ndarray) -> Accuracy:
    """Of a decoder whose batch is the number of texts."""
    slots, length = texts.shape
    distance = deviation = same = 0.0
    for position in range(length):
        answer = decoder.step(0, texts[:, position].tolist(), [position] * slots)
        found, wanted = answer.result(), right[:, position]
        distance += float(np.abs(found - wanted).mean())
        deviation += float(wanted.std(axis=-1).mean())
        same += float((found.argmax(-1) == wanted.argmax(-1)).mean())
    return Accuracy(distance / deviation, same / length, slots * length)
