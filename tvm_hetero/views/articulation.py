"""Articulations of a graph in topological order: what all others precede or follow.

With p a position in the order, everything else precedes or follows it, and no edge passes it by, if

    no edge leads from before p to after p;
    nothing before p is without a reader (it could not precede p);
    nothing after p reads nothing (it could not follow p),

since what leaves the front half must then end in p. One count over the edges tells all three.
"""

from __future__ import annotations

import numpy as np

from tvm_hetero.views.arrays import Array


def articulation_positions(count: int, src: Array, dst: Array) -> list[int]:
    """The articulations among `count` >= 1 positions, rising.

    Parameters
    ----------
    src, dst : positions of the maker and of the reader of every edge; src < dst.
    """
    crossing = np.zeros(count + 2, dtype=np.int64)
    np.add.at(crossing, src + 1, 1)
    np.add.at(crossing, dst, -1)
    passing = np.cumsum(crossing)[:count]
    place = np.arange(count)
    last_source = np.setdiff1d(place, dst)[-1]
    first_sink = np.setdiff1d(place, src)[0]
    found = (passing == 0) & (place >= last_source) & (place <= first_sink)
    return [int(i) for i in place[found]]
