"""Who is next: between the door, where queries come in, and the models, which compute them.

A dispatcher takes a query or refuses it, lets it wait, and has it computed. What it decides by is
its own (`serve.scheduling`); what all of them promise:

    at the door    `check_door` is called when the headers are there and before the body is: it
                   costs microseconds, and refuses what could not be done however small it is
    one end        each query that was accepted ends once: an answer, its deadline, a failure
    hang-ups       cancelling `compute` ends the query wherever it stands
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Protocol

from tvm_hetero.errors import DeadlineError
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models.statistics import EndedQuery, ModelStatistics, Observer
from tvm_hetero.serve.models.tensor_model import TensorModel

_UNANSWERED = InferenceAnswer({}, 0.0, 0.0, executions=0)


class Dispatcher(Protocol):
    """Decides when a query is computed, and on what."""

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        """Refuse a query of which only the headers are there: one element at least.

        Parameters
        ----------
        due : when it has to be, or should be, answered, by `time.monotonic`; None: whenever.

        Raises
        ------
        RefusedError
            If it would not be taken.
        """
        ...

    async def compute(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer:
        """Outputs of a query, when its turn has come.

        Raises
        ------
        RefusedError
            If it is not taken.
        DeadlineError, RunError
            As in `TensorModel.compute`.
        """
        ...


class Observed:
    """A dispatcher whose queries are counted, whatever becomes of them.

    Attributes
    ----------
    observers : told of each query that ended.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.observers: list[Observer] = []

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        """As `Dispatcher.check_door`."""
        try:
            self._dispatcher.check_door(model, due, priority)
        except RefusedError as error:
            self._tell(EndedQuery(model.name, model.version, "refused", error.reason))
            raise

    async def compute(
        self,
        model: TensorModel,
        statistics: ModelStatistics,
        query: InferenceQuery,
        slo: float | None,
    ) -> InferenceAnswer:
        """As `Dispatcher.compute`, and counted; `slo` (s) is the model's objective."""
        statistics.begin()
        if slo is not None:
            query = replace(query, due=query.arrived + slo)
        outcome, reason = "failed", ""
        answer = _UNANSWERED
        try:
            answer = await self._dispatcher.compute(model, query)
            outcome = "success"
            return answer
        except RefusedError as error:
            outcome, reason = "refused", error.reason
            raise
        except DeadlineError:
            outcome = "deadline"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            whole = time.monotonic() - query.arrived
            ended = EndedQuery(
                model.name, model.version, outcome, reason, answer.queued, answer.computed, whole,
                query.items, slo, answer.executions, answer.together,
            )  # fmt: skip
            statistics.end(ended)
            self._tell(ended)

    def _tell(self, ended: EndedQuery) -> None:
        for observer in self.observers:
            observer(ended)
