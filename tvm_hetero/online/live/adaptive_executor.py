"""An executor that keeps its pipeline in the best shape while it runs.

    with th.load("net.hetero", adapt="resolve", on_event=print) as ex:
        for out in ex.map(images): ...

A policy (`tvm_hetero.online.policies`) watches its plan and changes it. ``resolve`` and ``static``
begin with the artifact's own plan; the policies of the papers, which know contiguous stages alone,
with the best of those by the costs that were measured for the artifact.

Where all places are equal, cores that have nothing to do run the steps of others anyway
(``src/executor/state.h``). That is as good as any change of stages, and needs no time to notice
what happens: `docs/online.md` has the figures. So ``resolve`` leaves such a pipeline alone, and
only says so; the policies of the papers run if they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.live.adapter import AdaptationEvent, Adapter, make_setting
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.policies import make_policy

RESOLVE = "resolve"


class AdaptiveExecutor(Executor):
    """An executor with a policy that changes its plan while it runs.

    Parameters
    ----------
    executable : a model that was built to be adapted: partitioned for throughput.
    policy : one of `tvm_hetero.online.policies.policy_names()`.
    alpha : trials without gain after which a search of the policy gives up.
    on_event : called with each `AdaptationEvent`, in the adapter's thread.

    Attributes
    ----------
    policy : its name.
    idle : why nothing is adapted; "" where something is.

    Raises
    ------
    UsageError
        If there is no such policy, or the model was not built to be adapted.
    """

    def __init__(
        self,
        executable: Executable,
        policy: str = RESOLVE,
        *,
        alpha: int = 10,
        on_event: Callable[[AdaptationEvent], None] = lambda _: None,
    ) -> None:
        chosen = make_policy(policy)
        super().__init__(executable)
        self.policy = policy
        self.idle = ""
        self._adapter: Adapter | None = None
        try:
            pipeline = LivePipeline(self, executable)
            self.idle = _why_idle(policy, pipeline)
            if self.idle:
                self.watch(0)
            else:
                setting = make_setting(pipeline, alpha)
                self._adapter = Adapter(pipeline, chosen, setting, on_event)
        except BaseException:
            self.close()
            raise

    @property
    def failure(self) -> Exception | None:
        """Why the policy gave up; the executor goes on with the plan that is there."""
        return None if self._adapter is None else self._adapter.failure

    def close(self) -> None:
        """Stop adapting, and the worker threads."""
        if self._adapter is not None:
            self._adapter.close()
        super().close()


def _why_idle(policy: str, pipeline: LivePipeline) -> str:
    kinds = {(place.kind, place.width) for place in pipeline.places}
    if len(pipeline.places) == 1:
        return "there is one place only: nothing can be moved"
    if policy == RESOLVE and len(kinds) == 1:
        return (
            "all places are equal, and equal cores run each other's steps when they are idle: "
            "that is as good as moving stages"
        )
    return ""
