"""The best schedule so far, and the best bound: what there is to show for whoever ends a search.

A solver's answer passes here as soon as the judge has passed it, while others are still to be
asked. So another thread can take it at any moment: it never is half of anything.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule, SingleDevice


class BestSoFar:
    """What is known of one problem. Any thread may ask or tell.

    Parameters
    ----------
    problem : whose schedules are kept; those of others (a relaxed one, say) are not.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._lock = threading.Lock()
        self._best: Schedule | None = None
        self._single: SingleDevice | None = None
        self._bound = 0.0

    def offer(self, found: Schedule, bound: float = 0.0) -> None:
        """Keep a schedule that `check.verified` has passed, if it is better, and a proven bound."""
        if found.problem != self.problem.digest:
            return
        with self._lock:
            self._bound = max(self._bound, bound)
            if self._best is None or found.value < self._best.value:
                self._best = found

    def offer_single(self, found: Schedule, device: str) -> None:
        """The best single device, which is a schedule like others."""
        self.offer(found)
        self._single = SingleDevice(device, found.value)

    def answer(self, seconds: float, seed: int) -> Schedule | None:
        """The best as an answer to the problem, with the bound that is proven so far.

        Parameters
        ----------
        seconds, seed : of the search, as the answer states them.
        """
        with self._lock:
            if self._best is None:
                return None
            found = replace(
                self._best,
                lower_bound=min(self._bound, self._best.value),
                best_single_device=self._single,
                seconds=seconds,
                seed=seed,
            )
            return replace(found, status="optimal" if found.gap <= OPTIMAL_GAP else "feasible")
