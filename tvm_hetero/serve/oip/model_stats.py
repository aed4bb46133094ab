"""``GET /v2/models[/NAME[/versions/V]]/stats``: what models have done, as Triton counts it."""

from __future__ import annotations

from typing import Any

from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.statistics import ModelStatistics, PhaseTime

_NEVER = PhaseTime()


class ModelStats(ApiHandler):
    """Of one model."""

    def get(self, name: str, version: str | None = None) -> None:
        """Counts and nanoseconds since it was loaded."""
        model = self.context.repository.find(name, version)
        self.answer({"model_stats": [_told(model)]})


class AllStats(ApiHandler):
    """Of all models that take queries."""

    def get(self) -> None:
        """As `ModelStats`, one after the other."""
        models = [standing.model for _, standing in self.context.repository]
        self.answer({"model_stats": [_told(model) for model in models if model is not None]})


def _told(model: ServedModel) -> dict[str, Any]:
    counts = model.statistics
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": int(counts.last * 1000),
        "inference_count": counts.items,
        "execution_count": counts.executions,
        "inference_stats": {
            "success": _phase(counts.success),
            "fail": _phase(counts.fail),
            "queue": _phase(counts.queue),
            "compute_input": _phase(counts.decode),
            "compute_infer": _phase(counts.infer),
            "compute_output": _phase(counts.encode),
            "cache_hit": _phase(_NEVER),
            "cache_miss": _phase(_NEVER),
        },
        "response_stats": {},
        "batch_stats": _batches(counts),
        "memory_usage": [],
    }


def _batches(counts: ModelStatistics) -> list[dict[str, Any]]:
    """By queries' numbers of elements; all of one size, in the form that Triton has for it."""
    return [
        {
            "batch_size": items,
            "compute_input": _phase(PhaseTime(time.count, 0)),
            "compute_infer": _phase(time),
            "compute_output": _phase(PhaseTime(time.count, 0)),
        }
        for items, time in sorted(counts.by_items.items())
    ]


def _phase(time: PhaseTime) -> dict[str, int]:
    return {"count": time.count, "ns": time.ns}
