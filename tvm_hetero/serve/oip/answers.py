"""Outputs as what is sent: JSON, and bytes behind it where they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from tvm_hetero.serve.core.query import InferenceAnswer
from tvm_hetero.serve.oip.datatypes import datatype_of
from tvm_hetero.serve.oip.numbers import write_numbers
from tvm_hetero.serve.oip.requests import InferRequest


class WrittenAnswer(NamedTuple):
    """What is sent.

    Attributes
    ----------
    head : the JSON.
    tensors : what follows it; None: nothing, and the answer is JSON alone.
    """

    head: bytes
    tensors: Sequence[Any] | None


def write_answer(
    model: tuple[str, str], request: InferRequest, answer: InferenceAnswer
) -> Generator[None, None, WrittenAnswer]:
    """The protocol's answer of a model (name, version) to a request.

    Raises
    ------
    RequestError
        If numbers cannot be said in JSON.
    """
    outputs, tensors = [], []
    for wanted in request.outputs:
        array = np.asarray(answer.outputs[wanted.name], order="C")
        told: dict[str, Any] = {
            "name": wanted.name, "datatype": _datatype_of(array.dtype), "shape": array.shape,
        }  # fmt: skip
        if wanted.is_binary:
            told["parameters"] = {"binary_data_size": array.nbytes}
            tensors.append(array.reshape(-1).view(np.uint8).data)
        else:
            told["data"] = orjson.Fragment((yield from write_numbers(array)))
        outputs.append(told)
    document: dict[str, Any] = {"model_name": model[0], "model_version": model[1]}
    if request.id is not None:
        document["id"] = request.id
    document["outputs"] = outputs
    return WrittenAnswer(orjson.dumps(document), tensors or None)


@functools.cache
def _datatype_of(dtype: np.dtype[Any]) -> str:
    return datatype_of(dtype.name)  # NumPy puts the name together again each time
