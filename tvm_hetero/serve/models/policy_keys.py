"""By which names a policy knows models, and by when it is to have a query done."""

from __future__ import annotations

import math

from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.models.tensor_model import TensorModel

_OF_BATCH = "*"  # between a version and the size of a plan; versions are digits


def due_of(query: InferenceQuery) -> float:
    """When it should be computed, by its client and by its model's objective; infinite: never.

    What ends it is the deadline itself (`answer_in_time`): half of the answers are written sooner.
    """
    return min(query.deadline or math.inf, query.due or math.inf) - query.writing


def key_of(model: TensorModel) -> str:
    """By which a policy knows a model; its plans for batches are to it models of their own."""
    key = name_key(model.name, model.version)
    return key if model.size == 1 else f"{key}{_OF_BATCH}{model.size}"


def name_key(name: str, version: str) -> str:
    """By which it knows the model of a name and version."""
    return f"{name}/{version}"


def is_of(key: str, name: str, version: str) -> bool:
    """Whether a key is that of a model, or of one of its plans for batches."""
    own = name_key(name, version)
    return key == own or key.startswith(f"{own}{_OF_BATCH}")
