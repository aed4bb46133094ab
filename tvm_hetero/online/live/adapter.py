"""The thread in which a policy drives a pipeline that runs, and what it tells meanwhile.

    loop    switch to what the policy proposes; watch as many requests as it asks for; show it what
            was seen

The policy is the same pure function that the simulator runs. It works beside the stream: while a
plan is made, requests go on by the one that is there. Where a proposal cannot be run (a memory
limit, say), or anything else fails, the pipeline stays as it is, and it is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.errors import RunError
from tvm_hetero.online.live.diagnosis import explain
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import find_optimum
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.online.policy import Phase, Policy, Proposal, Setting
from tvm_hetero.util.closeable import Closeable

# The least that a window, or a trial, takes (s). The system gives a shared core away for some
# milliseconds at a time: a window has to hold many of these to tell what is left of the core.
WINDOW, TRIAL = 0.25, 0.15
# How long `close` waits for a plan that is being made.
_CLOSING = 30.0


@dataclass(frozen=True)
class AdaptationEvent:
    """A window, and what the policy made of it.

    Attributes
    ----------
    at : when it ended, s by `time.monotonic`.
    observation : what was seen.
    configuration : what runs from then on, as text; switched : whether it is another one.
    phase, why : of the policy's proposal.
    cause : what slows a stage, as far as can be told; "" where nothing does.
    """

    at: float
    observation: Observation
    configuration: str
    switched: bool
    phase: Phase
    why: str
    cause: str


def make_setting(pipeline: LivePipeline, alpha: int = 10, seed: int = 0) -> Setting:
    """What a policy knows before anything ran: costs, the best stages by them, the own plan."""
    seconds = pipeline.chain.seconds_on(pipeline.places)
    # Of the hinted work any unit will do: what a block takes where it is quickest.
    weights = tuple(min(row) for row in seconds)
    static = find_optimum(seconds, pipeline.places).configuration
    return Setting(
        pipeline.places, weights, static, seconds, alpha=alpha, seed=seed, own=pipeline.own
    )


class Adapter(Closeable):
    """Drives a pipeline by a policy until it is closed.

    Parameters
    ----------
    tell : called with each `AdaptationEvent`, in the adapter's thread.
    tell_failure : called there if it gives up.

    Attributes
    ----------
    failure : why it gave up; None while it did not.
    """

    def __init__(
        self,
        pipeline: LivePipeline,
        policy: Policy,
        setting: Setting,
        tell: Callable[[AdaptationEvent], None] = lambda _: None,
        tell_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self.failure: Exception | None = None
        self._pipeline = pipeline
        self._policy = policy
        self._setting = setting
        self._tell, self._tell_failure = tell, tell_failure
        self._state, self._proposal = policy.begin(setting)
        pipeline.switch(self._proposal.configuration)
        self._thread = threading.Thread(target=self._run, name="tvm_hetero adapter", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the pipeline as it is."""
        self._pipeline.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        quiet: dict[Arrangement, Observation] = {}
        try:
            while (seen := self._watch(self._proposal)) is not None:
                base = quiet.setdefault(seen.configuration, seen)
                self._state, self._proposal = self._policy.step(self._state, seen)
                switched = self._follow(self._proposal)
                self._tell(self._event(seen, switched, explain(base, seen, self._setting.places)))
        except Exception as error:  # closed, out of memory, a bug: the stream goes on as it is
            self._give_up(error)
        except BaseException as error:  # SystemExit of a policy: it would end the thread unheard
            self._give_up(RunError(f"the policy ended its thread: {error!r}"))

    def _give_up(self, error: Exception) -> None:
        self.failure = error
        self._tell_failure(error)

    def _watch(self, proposal: Proposal) -> Observation | None:
        least = TRIAL if proposal.searching else WINDOW
        return self._pipeline.observe(proposal.requests, least)

    def _follow(self, proposal: Proposal) -> bool:
        return self._pipeline.switch(proposal.configuration)

    def _event(self, seen: Observation, switched: bool, cause: str) -> AdaptationEvent:
        proposal = self._proposal
        text = proposal.configuration.text(self._setting.places)
        return AdaptationEvent(
            time.monotonic(), seen, text, switched, proposal.phase, proposal.why, cause
        )
