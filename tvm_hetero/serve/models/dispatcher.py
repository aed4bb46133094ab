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

    def compute_at_once(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer | None:
        """Outputs of a query whose turn is now, and that takes less than to wait for it would.

        None: `compute` is to be awaited; it may come to the same.

        Raises
        ------
        RefusedError, RunError
            As in `compute`.
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

    def compute_at_once(
        self,
        model: TensorModel,
        statistics: ModelStatistics,
        query: InferenceQuery,
        slo: float | None,
    ) -> InferenceAnswer | None:
        """As `Dispatcher.compute_at_once`, and counted, if it comes to an end here."""
        asked = _with_objective(query, slo)
        try:
            answer = self._dispatcher.compute_at_once(model, asked)
        except Exception as error:
            statistics.begin()
            self._end(model, statistics, asked, slo, _UNANSWERED, *_outcome_of(error))
            raise
        if answer is not None:
            statistics.begin()
            self._end(model, statistics, asked, slo, answer, "success")
        return answer

    async def compute(
        self,
        model: TensorModel,
        statistics: ModelStatistics,
        query: InferenceQuery,
        slo: float | None,
    ) -> InferenceAnswer:
        """As `Dispatcher.compute`, and counted; `slo` (s) is the model's objective."""
        statistics.begin()
        asked = _with_objective(query, slo)
        try:
            answer = await self._dispatcher.compute(model, asked)
        except BaseException as error:
            self._end(model, statistics, asked, slo, _UNANSWERED, *_outcome_of(error))
            raise
        self._end(model, statistics, asked, slo, answer, "success")
        return answer

    def _end(
        self,
        model: TensorModel,
        statistics: ModelStatistics,
        query: InferenceQuery,
        slo: float | None,
        answer: InferenceAnswer,
        outcome: str,
        reason: str = "",
    ) -> None:
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


def _with_objective(query: InferenceQuery, slo: float | None) -> InferenceQuery:
    return query if slo is None else replace(query, due=query.arrived + slo)


def _outcome_of(error: BaseException) -> tuple[str, str]:
    """What became of a query that raised this, and the reason of a refusal."""
    if isinstance(error, RefusedError):
        return "refused", error.reason
    if isinstance(error, DeadlineError):
        return "deadline", ""
    return ("cancelled" if isinstance(error, asyncio.CancelledError) else "failed"), ""
