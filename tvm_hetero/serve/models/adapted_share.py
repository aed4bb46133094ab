"""Adaptation of what is served: plans on all cores are watched, and changed if that helps.

Of a model's executors those on all cores of the pool are watched, with what comes alone and what
comes in numbers (`share_plans`): smaller shares are many, and have few stages, or one.

    a stream, unlike cores   the policy `resolve` moves stages (`online.live`); cores do not help
                             each other then, as nobody could tell how quick each of them is
    a stream, equal cores    nothing is moved: idle cores run steps of others, which is as good
    single elements          nothing is moved: a plan of least latency is no pipeline

Where nothing is moved it is still told what disturbs. CPU time of the thread that speaks with
clients is no interference (`online.live.own_threads`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm_hetero.artifact.executable import PARTITION, Executable
from tvm_hetero.errors import HeteroError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.chain import places_of
from tvm_hetero.online.interference import begin_watching, watch_interference
from tvm_hetero.online.live.adapter import AdaptationEvent, Adapter, make_setting
from tvm_hetero.online.live.adaptive_executor import RESOLVE
from tvm_hetero.online.live.own_threads import thread_seconds
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.serve.core.events import INTERFERENCE, SWITCH, ServerEvent
from tvm_hetero.serve.models.share_plans import Shape, SharePlan


@dataclass
class Adaptation:
    """That what is served is to be adapted.

    Attributes
    ----------
    tell : called with what happened, in any thread.
    loop_thread : that of the event loop, by `threading.get_native_id`; 0: not known yet.
    """

    tell: Callable[[ServerEvent], object]
    loop_thread: int = 0

    def loop_seconds(self) -> float:
        """CPU seconds that the event loop's thread has had."""
        return thread_seconds(self.loop_thread) if self.loop_thread else 0.0


class AdaptedShare(Executor):
    """An executor of a model's plan on all cores, which a policy watches and may change.

    Attributes
    ----------
    policy : the name of it; "" if nothing is watched, and `idle` says why.
    """

    def __init__(
        self,
        executable: Executable,
        plan: SharePlan,
        shape: Shape,
        beside: Executor,
        name: str,
        adaptation: Adaptation,
    ) -> None:
        aimed = executable.problem.with_objective(
            Objective("throughput", batch=executable.problem.batch)
        )
        own = replace(
            executable, problem=aimed, variants={PARTITION: plan.variant}, default=PARTITION,
            schedule=plan.schedule,
        )  # fmt: skip
        super().__init__(own, beside=beside)
        self.policy = self.idle = ""
        self._adapter: Adapter | None = None
        try:
            self._adapter = self._adapted(own, shape, name, adaptation)
        except HeteroError as error:  # it is served as it is
            self.idle = str(error)
            self.watch(0)
        except BaseException:
            self.close()
            raise

    def _adapted(
        self, own: Executable, shape: Shape, name: str, adaptation: Adaptation
    ) -> Adapter | None:
        places = places_of(own.problem.platform)
        if shape == "stream":  # a team is no stage's place beside its own cores
            places = tuple(place for place in places if place.width == 1)
        can_move = shape == "stream" and len({place.kind for place in places}) > 1
        pipeline = LivePipeline(
            self, own, helping=not can_move, places=places, own_seconds=adaptation.loop_seconds
        )
        if not can_move and pipeline.own is None:
            self.idle = "its plan is of a kind of which no stages can be told"
            self.watch(0)
            return None
        self.policy = RESOLVE if can_move else "static"
        setting = make_setting(pipeline)
        teller = AdaptationTeller(name, setting, adaptation.tell)
        policy = make_policy(self.policy)
        return Adapter(pipeline, policy, setting, teller.tell, teller.tell_failure)

    def close(self) -> None:
        """Stop adapting, and the worker threads."""
        if self._adapter is not None:
            self._adapter.close()
        super().close()


class AdaptationTeller:
    """Makes sentences of what an adapter sees; in its thread."""

    def __init__(self, model: str, setting: Setting, tell: Callable[[ServerEvent], object]) -> None:
        self._model, self._tell = model, tell
        self._state = begin_watching(setting)

    def tell(self, event: AdaptationEvent) -> None:
        """A window has been looked at."""
        self._state, change = watch_interference(self._state, event.observation)
        if change == "begun":
            noticed = self._state.alarm.text() if self._state.alarm else ""
            self._record(INTERFERENCE, event.cause or noticed)
        elif change == "ended":
            self._record(INTERFERENCE, "is over: stages take what they did before")
        if event.switched:
            self._record(SWITCH, f"{event.why}; now {event.configuration}")

    def tell_failure(self, error: Exception) -> None:
        """The adapter has given up."""
        self._record(SWITCH, f"is not adapted any more; it goes on as it is ({error})")

    def _record(self, kind: str, text: str) -> None:
        self._tell(ServerEvent(kind, text, self._model))
