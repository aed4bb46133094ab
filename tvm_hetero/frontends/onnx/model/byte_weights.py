"""Weights that are signed bytes once their zero points are subtracted."""

from __future__ import annotations

import numpy as np

MOST_STEPS = 1 << 15
"""Of a sum that kernels for bytes take; written down here so that no kernel is loaded for it."""
_LEAST, _GREATEST = -128, 127


def byte_weights(codes: np.ndarray | None, zero: np.ndarray | None) -> np.ndarray | None:
    """Return constant codes ``[K, N]`` less their zero points, None where these are no bytes.

    Parameters
    ----------
    codes : ndarray or None
        None for those that are known only when the model runs.
    zero : ndarray or None
        One for all, or one for each column; None for none.
    """
    if codes is None or codes.ndim != 2 or codes.shape[0] > MOST_STEPS or not codes.size:
        return None
    middle = np.zeros(1, np.int64) if zero is None else zero.astype(np.int64).reshape(-1)
    if middle.size not in (1, codes.shape[1]):
        return None
    centred = codes.astype(np.int64) - middle
    if centred.min() < _LEAST or centred.max() > _GREATEST:
        return None
    return centred.astype(np.int8)


def byte_filters(codes: np.ndarray | None, zero: np.ndarray | None) -> np.ndarray | None:
    """Return the weights of a convolution as :func:`byte_weights` returns those of a product.

    Parameters
    ----------
    codes : ndarray or None
        ``[O, I, ...]``.
    zero : ndarray or None
        One for all, or one for each output channel; None for none.
    """
    if codes is None or codes.ndim < 3 or not codes.size:
        return None
    found = byte_weights(codes.reshape(len(codes), -1).T, zero)
    return None if found is None else np.ascontiguousarray(found.T).reshape(codes.shape)
