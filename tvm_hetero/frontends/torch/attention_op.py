"""Attention over caches as one operation of torch, which ``torch.export`` writes down as it stands.

``attend`` computes in torch what `tvm_hetero.kernels.attention.kernel` computes in place:
`from_exported` puts that kernel in its place, so that a step reads each cache once and copies none.
A model calls it with its caches and gives them back, as with any other update:

    found, keys, values = attend(q, k, v, position, keys, values, scale)
"""

from __future__ import annotations

import torch

NAME = "attend.default"


@torch.library.custom_op("tvm_hetero::attend", mutates_args=())
def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    position: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Causal attention of a sequence's next tokens.

    Parameters
    ----------
    q
        ``[tokens, heads, size]``.
    k, v
        ``[tokens, kv_heads, size]``: what is new; heads are a multiple of them.
    position
        ``[1]``: the row of the first token.
    keys, values
        ``[kv_heads, length, size]``: the caches.
    scale
        Of the products.

    Returns
    -------
    tuple
        What was found, ``[tokens, heads, size]``, and the caches with the new rows in them.
    """
    tokens, length = q.shape[0], keys.shape[1]
    rows = position + torch.arange(tokens, device=q.device)
    within = rows[rows < length]
    keys = keys.index_copy(1, within, k[: len(within)].transpose(0, 1))
    values = values.index_copy(1, within, v[: len(within)].transpose(0, 1))
    each = q.shape[1] // keys.shape[0]
    read, given = (c.repeat_interleave(each, dim=0) for c in (keys, values))
    scores = scale * (q.transpose(0, 1) @ read.transpose(1, 2))
    unseen = torch.arange(length, device=q.device)[None] > rows[:, None]
    found = scores.masked_fill(unseen, -torch.inf).softmax(-1) @ given.masked_fill(
        given.isnan(), 0.0
    )
    return found.transpose(0, 1).contiguous(), keys, values


@attend.register_fake
def _(q, k, v, position, keys, values, scale):  # type: ignore[no-untyped-def]
    return torch.empty_like(q), torch.empty_like(keys), torch.empty_like(values)
