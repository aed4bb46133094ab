"""Which shares of the pool are worth having for a query that nobody waits for at a given time.

A query with a deadline gets the least share that meets it. One without would be ended soonest by
all places, though the last of them may bring next to nothing: on two cores SqueezeNet is 1.26 times
as quick as on one, and whoever comes meanwhile finds no core. From the smallest share up, each is
compared with the last one that was kept,

    gain      = seconds(kept) / seconds(share) - 1
    efficiency = gain / (share / kept - 1)      1 if so many more places divide the time

and kept if its gain is at least `gain`, and, where others have deadlines, its efficiency at least
`efficiency`: the values, and what they bring, are in docs/accordion.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.serve.scheduling.profile import UsefulShare

_EPS = 1e-9


def worthwhile_shares(
    shares: Sequence[UsefulShare], gain: float, efficiency: float = 0.0
) -> tuple[UsefulShare, ...]:
    """Of shares, smallest first, those that are worth their places; never none.

    Parameters
    ----------
    gain : by which share a wider one has to be quicker than the next smaller one that is kept.
    efficiency : what it has to bring, as a share of what it would if places divided the time.
    """
    kept = [shares[0]]
    for share in shares[1:]:
        last = kept[-1]
        won = last.seconds / share.seconds - 1
        if won >= max(gain, efficiency * (share.places / last.places - 1)) - _EPS:
            kept.append(share)
    return tuple(kept)
