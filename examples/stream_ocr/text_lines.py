"""What stands before, between and behind the two networks: tensors, boxes, letters.

A detector says for each pixel how likely it is inside a line of text; the recognizer takes a line
of 48 pixels height and says for each step along it which letter stands there (CTC: letter 0 is
"none", and a letter that is said twice in a row is one). So do PaddleOCR's networks, which RapidOCR
packs as ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import ndimage

Array = np.ndarray[Any, Any]

LINE_HEIGHT, LINE_WIDTH = 48, 320
# The ink's height in a line for the recognizer, and how much paper is before it.
INK_HEIGHT, _BEFORE = 35, 10
_TEXT = 0.3  # probability from which a pixel is one of text
_GROW = 1.5  # DBNet's: it finds lines smaller than they are (arXiv 1911.08947, 3.4)
_SPECK = 40  # pixels that are too few for a line
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def detector_input(picture: Array) -> Array:
    """A picture (H, W) of bytes as the detector's (1, 3, H, W) of float32."""
    grey = picture.astype(np.float32) / 255
    planes = [(grey - m) / d for m, d in zip(_MEAN, _DEVIATION, strict=True)]
    return np.stack(planes)[None].astype(np.float32)


def find_lines(picture: Array, probability: Array) -> list[Array]:
    """The lines of a picture from top to bottom, as the recognizer's inputs (1, 3, 48, 320)."""
    regions, _ = ndimage.label(probability > _TEXT)
    boxes = [box for box in ndimage.find_objects(regions) if probability[box].size >= _SPECK]
    boxes.sort(key=lambda box: (box[0].start, box[1].start))
    cut = [_cut_ink(picture[_grown(box, picture.shape)]) for box in boxes]
    return [recognizer_input(line) for line in cut if line is not None]


def _grown(box: tuple[slice, ...], shape: Sequence[int]) -> tuple[slice, ...]:
    """A box with more on all sides: its area over its circumference, times a constant."""
    high, wide = (side.stop - side.start for side in box)
    more = round(_GROW * high * wide / (2 * (high + wide)))
    return tuple(
        slice(max(0, side.start - more), min(end, side.stop + more))
        for side, end in zip(box, shape, strict=True)
    )


def _cut_ink(region: Array) -> Array | None:
    """The smallest part of a region with all of its ink, 0 to 1; None if there is no contrast."""
    dark, bright = float(region.min()), float(region.max())
    if bright - dark < 64:
        return None
    ink = region < (dark + bright) / 2
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    part = region[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return part.astype(np.float32) / 255


def recognizer_input(line: Array) -> Array:
    """A line without margins, 0 to 1, scaled and put on paper; what is too long is squeezed."""
    scale = INK_HEIGHT / line.shape[0]
    width = min(round(line.shape[1] * scale), LINE_WIDTH - 2 * _BEFORE)
    zoom = (scale, width / line.shape[1])
    ink = line if line.shape == (INK_HEIGHT, width) else ndimage.zoom(line, zoom, order=1)
    # As bright as most of what is no ink; the brightest pixels are noise.
    paper = np.full((LINE_HEIGHT, LINE_WIDTH), np.float32(np.quantile(line, 0.8)))
    top = (LINE_HEIGHT - INK_HEIGHT) // 2
    paper[top : top + ink.shape[0], _BEFORE : _BEFORE + ink.shape[1]] = ink
    return np.repeat(((paper - 0.5) / 0.5)[None, None], 3, axis=1).astype(np.float32)


def read_letters(scores: Array, letters: Sequence[str]) -> str:
    """The text of a line from scores (1, steps, 1 + letters): the best path, repetitions once."""
    best = scores[0].argmax(axis=1)
    new = np.concatenate(([True], best[1:] != best[:-1]))
    return "".join(letters[number - 1] for number in best[new & (best > 0)])
