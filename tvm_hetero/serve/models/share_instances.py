"""Executors of one model, one for each share that it was given; weights and kernels are shared.

A share's executor has threads on the share's cores and slots of its own. Threads of shares that are
not in use sleep. So a query changes its share by sending its next item elsewhere: nothing is
switched, and what is in flight ends where it is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.serve.models.adapted_share import Adaptation, AdaptedShare
from tvm_hetero.serve.models.share_plans import Cores, Shape, SharePlans
from tvm_hetero.util.closeable import Closeable

_SHARE = "share"


class ShareInstances(Closeable):
    """Executors by share, made when they are first asked for; those used last are kept.

    Parameters
    ----------
    most : how many are kept at most. One that is in use must not be among those that go: give at
        least twice as many as there are cores.
    name, adaptation : of what is to be adapted (`adapted_share`); None: nothing is.

    Attributes
    ----------
    plans : the model's plans.
    whole : runs the artifact's own plan.
    """

    def __init__(
        self,
        executable: Executable,
        most: int,
        name: str = "",
        adaptation: Adaptation | None = None,
    ) -> None:
        self._executable = executable
        self._name, self._adaptation = name, adaptation
        self.plans = SharePlans(executable)
        self.whole = Executor(executable)
        self._most = most
        self._kept: OrderedDict[tuple[Cores, Shape], Executor] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    def find(self, cores: Cores, shape: Shape) -> Executor | None:
        """The executor of a share if it is there."""
        if not self.plans.is_divisible:
            return self.whole
        try:
            # First, so that `make` in another thread lets go of others between the two steps.
            self._kept.move_to_end((cores, shape))
        except KeyError:
            return None
        return self._kept.get((cores, shape))

    def make(self, cores: Cores, shape: Shape) -> Executor:
        """The executor of a share; takes up to seconds where it is not there. For any thread.

        Raises
        ------
        HeteroError
            If the model does not run on the share, or is closed.
        """
        with self._lock:
            if self._is_closed:
                raise RunError("the model was closed")
            found = self.find(cores, shape)
            if found is not None:
                return found
            made = self._make(cores, shape)
            self._kept[cores, shape] = made
            while len(self._kept) > self._most:
                _, oldest = self._kept.popitem(last=False)
                oldest.close()
            return made

    def _make(self, cores: Cores, shape: Shape) -> Executor:
        plan = self.plans.plan(cores, shape)
        if self._adaptation is not None and cores >= self.plans.cores:
            return AdaptedShare(
                self._executable, plan, shape, self.whole, self._name, self._adaptation
            )
        own = replace(
            self._executable,
            variants={_SHARE: plan.variant},
            default=_SHARE,
            schedule=plan.schedule,
        )
        return Executor(own, beside=self.whole)

    def close(self) -> None:
        """Stop all of them; what is in flight fails."""
        with self._lock:
            self._is_closed = True
            for each in (*self._kept.values(), self.whole):
                each.close()
            self._kept.clear()
