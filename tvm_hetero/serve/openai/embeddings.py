"""``POST /v1/embeddings``: texts as vectors, by encoders that are served.

An encoder here is a model that maps ``input_ids`` [1, n] (and ``attention_mask``,
``token_type_ids``) to a hidden state [1, n, width], as ``tvm-hetero partition`` makes of a folder
from Hugging Face. Texts are padded to n; the hidden states
of a text's own tokens are averaged, and the mean is brought to length 1, as vectors of OpenAI's API
are.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.tensor_model import Signature, TensorModel
from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.handler import OpenAiHandler, off_loop
from tvm_hetero.serve.openai.prompts import split_prompts
from tvm_hetero.serve.openai.schemas import EmbeddingFields
from tvm_hetero.serve.text.folder import FolderTexts, read_texts

_IDS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"
T = TypeVar("T")
_AT_ONCE = 8  # texts of one request
_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EncoderForm:
    """Where a model reads tokens, and where its hidden states are.

    Attributes
    ----------
    length, width : tokens of a text; numbers of a hidden state.
    inputs : types by name.
    output : the name of the hidden states.
    """

    length: int
    width: int
    inputs: Mapping[str, str]
    output: str


def encoder_form(signature: Signature) -> EncoderForm | None:
    """How a model is an encoder; None: it is none."""
    inputs = {info.name: info for info in signature.inputs}
    if _IDS not in inputs or not inputs.keys() <= {_IDS, _MASK, _TYPES}:
        return None
    shape = inputs[_IDS].shape
    if len(shape) != 2 or shape[0] != 1 or any(i.shape != shape for i in inputs.values()):
        return None
    for info in signature.outputs:
        if len(info.shape) == 3 and info.shape[:2] == shape and info.dtype.startswith("float"):
            types = {name: info.dtype for name, info in inputs.items()}
            return EncoderForm(shape[1], info.shape[2], types, info.name)
    return None


class Embeddings(OpenAiHandler):
    """A vector for each text."""

    async def post(self) -> None:
        """Answer."""
        fields = self.read(EmbeddingFields)
        served, model, form = self._find_encoder(fields)
        deadline = self.deadline(fields.timeout)
        with self.counted_stream():
            texts = await self.attend_until(deadline, self._texts(served))
            tokens = await self.attend_until(
                deadline, off_loop(len(self.body), lambda: _read_inputs(fields, form, texts))
            )
            vectors: list[_Array] = []
            for some in _batched(tokens, _AT_ONCE):  # no more, lest others find the queue full
                work = [self._embed(served, model, form, each, deadline) for each in some]
                vectors += await self.attend_until(deadline, all_or_none(work))
        self.answer(_document(fields, vectors, sum(map(len, tokens))))

    def _find_encoder(
        self, fields: EmbeddingFields
    ) -> tuple[ServedModel, TensorModel, EncoderForm]:
        served = self.find_model(fields.model)
        form = None if served.tensors is None else encoder_form(served.tensors.signature)
        if served.tensors is None or form is None:
            raise InvalidRequestError(
                f"the model {fields.model!r} is no encoder: it does not map {_IDS} [1, n] to a "
                "hidden state [1, n, width]", "model", "model_not_supported",
            )  # fmt: skip
        if fields.dimensions not in (None, form.width):
            raise InvalidRequestError(
                f"dimensions: the model has vectors of {form.width}", "dimensions"
            )
        if fields.encoding_format not in (None, "float", "base64"):
            raise InvalidRequestError(
                "encoding_format: expected 'float' or 'base64'", "encoding_format"
            )
        return served, served.tensors, form

    async def _texts(self, served: ServedModel) -> FolderTexts | None:
        """The tokenizer of the model's folder, read once."""
        known: WeakKeyDictionary[ServedModel, FolderTexts | None] = self.context.parts.setdefault(
            "openai.encoders", WeakKeyDictionary()
        )
        if served not in known:
            loop = asyncio.get_running_loop()
            known[served] = await loop.run_in_executor(None, read_texts, served.path)
        return known[served]

    async def _embed(
        self,
        served: ServedModel,
        model: TensorModel,
        form: EncoderForm,
        tokens: Sequence[int],
        deadline: float | None,
    ) -> _Array:
        mask = np.zeros((1, form.length))
        mask[0, : len(tokens)] = 1
        ids = np.zeros((1, form.length))
        ids[0, : len(tokens)] = tokens
        rows = {_IDS: ids, _MASK: mask, _TYPES: np.zeros((1, form.length))}
        inputs = {name: rows[name].astype(dtype) for name, dtype in form.inputs.items()}
        query = InferenceQuery(inputs, deadline=deadline, arrived=self.arrived)
        answer = await self.context.dispatcher.compute(model, served.statistics, query, served.slo)
        return pool(answer.outputs[form.output][0, : len(tokens)])


async def all_or_none(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; where one fails, nothing goes on for the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _batched(given: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    return (given[begin : begin + count] for begin in range(0, len(given), count))


def pool(states: _Array) -> _Array:
    """The mean of hidden states, of length 1."""
    mean = states.astype(np.float64).mean(axis=0)
    pooled: _Array = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return pooled.astype(np.float32)


def _read_inputs(
    fields: EmbeddingFields, form: EncoderForm, texts: FolderTexts | None
) -> list[Sequence[int]]:
    given = split_prompts(fields.input, form.length, "input")
    return [_tokens(each, form, texts) for each in given]


def _tokens(given: str | list[int], form: EncoderForm, texts: FolderTexts | None) -> Sequence[int]:
    if isinstance(given, str):
        if texts is None:
            raise InvalidRequestError(
                "the model has no tokenizer (no tokenizer.json in its folder), so it takes token "
                "ids only: input: [1, 2, 3]", "input", "no_tokenizer",
            )  # fmt: skip
        if len(given) > texts.tokenizer.most_characters(form.length):
            raise _too_long(f"{len(given)} letters", form)
        given = texts.tokenizer.encode(given)
    if not given:
        raise InvalidRequestError("input is empty; expected one token at least", "input")
    if len(given) > form.length or (len(given) < form.length and _MASK not in form.inputs):
        raise _too_long(f"{len(given)} tokens", form)
    if not all(0 <= token < 2**31 for token in given):
        raise InvalidRequestError("input: expected token ids, from 0 up", "input")
    return given


def _too_long(what: str, form: EncoderForm) -> InvalidRequestError:
    limit = "at most" if _MASK in form.inputs else "exactly (it has no attention_mask)"
    return InvalidRequestError(
        f"input has {what}; the model takes {form.length} tokens {limit}", "input",
        "context_length_exceeded",
    )  # fmt: skip


def _document(fields: EmbeddingFields, vectors: Sequence[_Array], tokens: int) -> dict[str, Any]:
    is_text = fields.encoding_format == "base64"
    rows = [
        base64.b64encode(each.astype("<f4").tobytes()).decode() if is_text else each
        for each in vectors
    ]
    data = [
        {"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": fields.model, "usage": usage}
