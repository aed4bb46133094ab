"""Rotary embeddings: pairs of a head's elements, turned by an angle that grows with the place.

    (a, b) -> (a cos - b sin, b cos + a sin)

The pairs are neighbours (``interleaved``), or an element of the first half and one of the second.
"""

from __future__ import annotations

import numpy as np

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.microsoft.heads import split_heads


@contributed(
    "RotaryEmbedding",
    operands=4,
    attributes=("interleaved", "num_heads", "rotary_embedding_dim"),
    only={"is_packed_batching": 0, "scale": 1.0},
)
def rewrite_rotary_embedding(r: Rewriting) -> None:
    """Split into heads where they are not, look up the angles, and turn."""
    x, positions, cosines, sines = r.inputs
    dims = r.dims(x)
    half = r.dims(cosines)[1]
    given, heads = (int(r.attribute(n, 0)) for n in ("rotary_embedding_dim", "num_heads"))
    if given and not heads and len(dims) == 3:
        r.refuse("has rotary_embedding_dim without num_heads")
    if len(dims) == 3:
        heads = heads if given else dims[2] // (2 * half)
        batch, places, size = dims[0], dims[1], dims[2] // heads
        x = split_heads(r, x, heads, dims)
    else:
        batch, heads, places, size = dims
    turns = [angles(r, table, positions, r.dims(positions), places) for table in (cosines, sines)]
    interleaved = bool(r.attribute("interleaved", 0))
    turned = add_rotary(r, x, turns, (batch, heads, places, size), half, interleaved=interleaved)
    if len(dims) == 4:
        r.alias(turned, r.outputs[0])
        return
    back = r.add("Transpose", [turned], perm=[0, 2, 1, 3])
    r.add("Reshape", [back, r.constant(dims, np.int64)], r.outputs)


def angles(r: Rewriting, table: str, positions: str, dims: tuple[int, ...], places: int) -> str:
    """Return the rows of a table for positions, as (batch or 1, 1, place, half).

    Parameters
    ----------
    r : Rewriting
        The node.
    table : str
        (place, half) of cosines or sines.
    positions : str
        (batch, place), or the first place's alone.
    dims : tuple of int
        Dimensions of `positions`.
    places : int
        How many places there are.
    """
    if len(dims) == 1:
        steps = r.constant(np.arange(places)[None], np.int64)
        positions = r.add("Add", [positions, steps])
    rows = r.add("Gather", [table, positions], axis=0)
    return r.add("Unsqueeze", [rows, r.constant([1], np.int64)])


def add_rotary(
    r: Rewriting,
    x: str,
    turns: list[str],
    dims: tuple[int, int, int, int],
    half: int,
    *,
    interleaved: bool,
) -> str:
    """Turn the first ``2 half`` elements of each head; returns the result's name.

    Parameters
    ----------
    r : Rewriting
        The node.
    x : str
        (batch, head, place, size), which `dims` says in numbers.
    turns : list of str
        Cosines and sines, which broadcast with (batch, head, place, half).
    dims : tuple of int
        Dimensions of `x`.
    half : int
        How many pairs are turned.
    interleaved : bool
        Whether a pair is two neighbours.
    """
    cosine, sine = turns
    rest = dims[3] - 2 * half
    turned = _cut(r, x, 0, 2 * half) if rest else x
    if interleaved:
        pairs = r.add("Reshape", [turned, r.constant([*dims[:3], half, 2], np.int64)])
        a, b = (r.add("Gather", [pairs, r.constant(i, np.int64)], axis=4) for i in (0, 1))
    else:
        a, b = _cut(r, turned, 0, half), _cut(r, turned, half, 2 * half)
    first = r.add("Sub", [r.add("Mul", [a, cosine]), r.add("Mul", [b, sine])])
    second = r.add("Add", [r.add("Mul", [b, cosine]), r.add("Mul", [a, sine])])
    joined = _joined(r, first, second, dims, half, interleaved=interleaved)
    if not rest:
        return joined
    return r.add("Concat", [joined, _cut(r, x, 2 * half, dims[3])], axis=3)


def _joined(
    r: Rewriting,
    first: str,
    second: str,
    dims: tuple[int, int, int, int],
    half: int,
    *,
    interleaved: bool,
) -> str:
    if not interleaved:
        return r.add("Concat", [first, second], axis=3)
    last = r.constant([4], np.int64)
    pairs = r.add("Concat", [r.add("Unsqueeze", [each, last]) for each in (first, second)], axis=4)
    return r.add("Reshape", [pairs, r.constant([*dims[:3], 2 * half], np.int64)])


def _cut(r: Rewriting, x: str, start: int, end: int) -> str:
    limits = [r.constant([limit], np.int64) for limit in (start, end, 3)]
    return r.add("Slice", [x, *limits])
