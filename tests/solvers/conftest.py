"""Solvers' tests ask what counted work finds, not how busy the machine is that they run on.

Searches count their work, and the clock is a net that cuts only what a slow machine drags out
(`Options.time_limit`). On a machine with other work it does cut, and a test that expects an
optimum, or the same answer twice, would fail by chance. So the net hangs lower here. A file whose
subject is the net itself says ``NET_AS_IT_IS = True``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tvm_hetero.solvers import Options

# Times the limit that a search may take here.
_LOWER = 20.0


@pytest.fixture(scope="module", autouse=True)
def lower_net(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without a clock of its own, a search is cut much later than at its limit."""
    if getattr(request.module, "NET_AS_IT_IS", False):
        yield
        return

    def patience(options: Options) -> float:
        return _LOWER * options.time_limit if options.clock is None else options.clock

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Options, "patience", property(patience))
        yield
