"""Fourier transforms as products with constant matrices: DFT, STFT.

A tensor's last axis holds a number's real part, or both parts.  With w = exp(-2 pi i / n)

    (re + i im) w^(kt)  =  (re cos - im sin) + i (re sin + im cos)      at the angle of w^(kt)

so that a transform of length n is one real matrix, from (t, part) to (k, part).  It costs n^2
where an FFT takes n log n: at the lengths that models have (a few hundred) a product is as fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis

Matrix = np.ndarray[Any, Any]

LONGEST = 4096
"""A longer transform would need a matrix of gigabytes."""


def fourier_matrix(length: int, read: int, parts: int, *, onesided: bool) -> Matrix:
    """Return the transform of `read` numbers, zeros behind them up to `length`.

    Parameters
    ----------
    length : int
        Of the transform.
    read : int
        How many numbers there are; those beyond `length` do not count.
    parts : int
        1 for real numbers, 2 for complex ones.
    onesided : bool
        Whether only the frequencies up to the half of `length` are wanted.

    Returns
    -------
    array of float64
        From (number, part) to (frequency, real or imaginary).
    """
    frequencies = length // 2 + 1 if onesided else length
    turns = np.outer(np.arange(read), np.arange(frequencies)) % length
    real, imaginary = _parts(turns, -1, length)
    real[length:], imaginary[length:] = 0, 0
    rows = [np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)]
    return np.stack(rows[:parts], 1)


def inverse_matrix(length: int, read: int, *, onesided: bool) -> Matrix:
    """Return the inverse transform of complex numbers; as :func:`fourier_matrix`.

    If `onesided`, the other half of the frequencies is what makes the outcome real.
    """
    turns = np.outer(np.arange(read), np.arange(length)) % length
    real, imaginary = (part / length for part in _parts(turns, 1, length))
    if not onesided:
        real[length:], imaginary[length:] = 0, 0
        return np.stack([np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)], 1)
    kept = length // 2 + 1
    real[kept:], imaginary[kept:] = 0, 0
    # Each frequency stands for its mirror image too, but for the first and the middle one.
    twice = np.full((read, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and length // 2 < read:
        twice[length // 2] = 1
    return np.stack([real * twice, -imaginary * twice], 1)[..., None]


def _parts(turns: Matrix, sign: int, length: int) -> tuple[Matrix, Matrix]:
    angles = sign * 2 * np.pi * turns / length
    return np.cos(angles), np.sin(angles)


@rewrites("DFT")
def rewrite_dft(r: Rewriting) -> bool:
    """A product with the matrix of the transform."""
    x = r.inputs[0]
    dims = r.dims(x)
    axis = checked_axis(r.refuse, _dft_axis(r), len(dims))
    inverse, onesided = bool(r.attribute("inverse", 0)), bool(r.attribute("onesided", 0))
    read, parts = dims[axis], dims[-1]
    usual = 2 * (read - 1) if inverse and onesided else read
    length = r.whole_number(1, "length") if r.operand(1) else usual
    if not 1 <= length <= LONGEST or axis == len(dims) - 1:
        r.refuse(f"is of length {length} along axis {axis}; expected one up to {LONGEST}")
    r.afford(read, length, 8)  # and what is computed on the way
    matrix = (
        inverse_matrix(length, read, onesided=onesided)[:, :parts]
        if inverse
        else fourier_matrix(length, read, parts, onesided=onesided)
    )
    _transform(r, axis, matrix)
    return True


def _dft_axis(r: Rewriting) -> int:
    if r.opset < 20:
        return int(r.attribute("axis", 1))
    return r.whole_number(2, "axis") if r.operand(2) else -2


def _transform(r: Rewriting, axis: int, matrix: Matrix) -> None:
    """Multiply along an axis and the last one."""
    dims = r.dims(r.inputs[0])
    read, parts, frequencies, made = matrix.shape
    others = [n for n in range(len(dims) - 1) if n != axis]
    order = [*others, axis, len(dims) - 1]
    outer = [dims[n] for n in others]
    moved = r.add("Transpose", [r.inputs[0]], perm=order)
    rows = r.add("Reshape", [moved, r.constant([*outer, read * parts], np.int64)])
    flat = matrix.reshape(read * parts, frequencies * made)
    product = r.add("MatMul", [rows, r.constant(flat.astype(r.dtype(r.inputs[0])))])
    apart = r.add("Reshape", [product, r.constant([*outer, frequencies, made], np.int64)])
    back = [int(n) for n in np.argsort(order)]
    r.add("Transpose", [apart], r.outputs, perm=back)


@rewrites("STFT")
def rewrite_stft(r: Rewriting) -> bool:
    """A convolution: its weights are the waves under the window, its stride is the step."""
    x, window = r.inputs[0], r.operand(2)
    dims = r.dims(x)
    step = r.whole_number(1, "step between frames")
    parts = dims[2] if len(dims) == 3 else 1
    onesided = bool(r.attribute("onesided", 1))
    if r.operand(3):
        length = r.whole_number(3, "length of a frame")
    elif window:
        (length,) = r.dims(window)
    else:
        length = dims[1]
    if not 1 <= length <= min(LONGEST, dims[1]) or step < 1:
        r.refuse(f"has frames of {length} in steps of {step}, of a signal of {dims[1]}")
    waves = fourier_matrix(length, length, parts, onesided=onesided)
    frequencies = waves.shape[2]
    kernel = r.constant(waves.transpose(2, 3, 1, 0).reshape(-1, parts, length), r.dtype(x))
    if window:
        if r.dims(window) != (length,):
            r.refuse(f"has a window of {r.dims(window)[0]} for frames of {length}")
        kernel = r.add("Mul", [kernel, window])
    signal = r.add("Reshape", [x, r.constant([dims[0], dims[1], parts], np.int64)])
    channels = r.add("Transpose", [signal], perm=[0, 2, 1])
    found = r.add("Conv", [channels, kernel], strides=[step], kernel_shape=[length])
    frames = (dims[1] - length) // step + 1
    by_frame = r.add("Transpose", [found], perm=[0, 2, 1])
    shape = r.constant([dims[0], frames, frequencies, 2], np.int64)
    r.add("Reshape", [by_frame, shape], r.outputs)
    return True


@rewrites("MelWeightMatrix")
def rewrite_mel_weights(r: Rewriting) -> bool:
    """Computed before, if all of it is known: so say what is not."""
    names = ("bins", "length", "sample rate", "lower edge", "upper edge")
    for position, name in enumerate(names):
        r.constant_of(position, name)
    return False
