"""Decoders of transformers that we do not read ourselves: exported with our attention in them.

transformers calls attention by name, and caches through an object with ``update``. Here the name
stands for `attention_op.attend`, and the object hands new keys and values through as they are;
so the exported program takes the caches, and the attention of each layer gives them back. What the
model does with positions, norms and its feed-forward networks is its own, in torch's operators.

Refused: models that want more of attention than softmax over all that came before (windows, caps,
sinks, biases), and those that do not call it by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.torch.attention_op import attend

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from transformers import PreTrainedModel

_NAME = "tvm_hetero"
# How models call their caches: since transformers 5.24, and before it.
_CACHE_NAMES = ("cache", "past_key_values")
# What attention may be told without a difference: nothing is trained here.
_HARMLESS = frozenset({
    "dropout", "position_ids", "use_cache", "cache_position", "is_causal", "return_dict",
    *_CACHE_NAMES, "position_embeddings", "logits_to_keep",
})  # fmt: skip
# What else there is to do.
_CURE = "export it with a function of your own (docs/decoders.md, Through torch.export)"


def export_transformers(
    model: PreTrainedModel, *, length: int, tokens: int = 1
) -> tuple[ExportedProgram, dict[str, int]]:
    """Export a step or a chunk of a decoder of transformers, ready for `from_exported`.

    Parameters
    ----------
    model
        A causal language model, in float32, bfloat16 or float16; its caches are of that type. It
        is not changed but for ``eval()`` and that its parameters no longer require gradients.
    length
        Rows of the caches.
    tokens
        How many tokens a run takes.

    Returns
    -------
    tuple
        The program, and ``states`` as `from_exported` takes it.

    Raises
    ------
    ModelError
        The model wants another kind of attention.
    UsageError
        ``length`` or ``tokens`` is out of its range.
    """
    config = model.config.get_text_config()
    longest = getattr(config, "max_position_embeddings", length)
    if not 1 <= tokens <= length <= longest:
        raise UsageError(
            f"tokens={tokens}, length={length}: expected 1 <= tokens <= length <= {longest}"
        )
    step = _ExportStep(model.eval().requires_grad_(False))
    with _our_attention(model), _told_of(model):
        caches = [torch.zeros(shape, dtype=model.dtype) for shape in _shapes(step, length)]
        program = torch.export.export(step, (*_numbers(tokens), caches), strict=False)
    return program, {f"caches_{i}": 1 + i for i in range(len(caches))}


def cache_name(model: nn.Module) -> str:
    """How a model of transformers calls its caches, as an argument and in its output.

    Raises
    ------
    ModelError
        It takes none under a name that is known.
    """
    taken = inspect.signature(model.forward).parameters
    for name in _CACHE_NAMES:
        if name in taken:
            return name
    raise ModelError(
        f"{type(model).__name__} takes no caches: expected an argument "
        f"{' or '.join(_CACHE_NAMES)}, found {', '.join(taken)}; {_CURE}"
    )


@contextmanager
def _told_of(model: PreTrainedModel) -> Iterator[None]:
    """Whatever goes wrong inside of the model, said as an error of ours."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be exported with our attention: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    """Why a model cannot be exported: the first line of an error, or what our caches lack."""
    if isinstance(error, AttributeError) and isinstance(error.obj, _Caches):
        return f"it asks the cache for {error.name!r}, which the exporter does not give; {_CURE}"
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{lines[0]:.300}" if lines else "no reason given"


def _numbers(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Some tokens and their position."""
    return torch.zeros(tokens, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)


def _shapes(step: _ExportStep, length: int) -> list[tuple[int, int, int]]:
    """The caches that the model needs: it is run on a token to see."""
    seen = _Seen(length)
    step.run(*_numbers(1), seen)
    layers = step.model.config.get_text_config().num_hidden_layers
    if sorted(seen.shapes) != list(range(layers)):
        raise ModelError(
            f"{type(step.model).__name__} calls attention by name in {len(seen.shapes)} of its "
            f"{layers} layers, so it cannot be exported with ours"
        )
    return [shape for layer in range(layers) for shape in (seen.shapes[layer],) * 2]


class _Caches:
    """Hands keys and values through; the attention of a layer asks for its caches here.

    transformers asks a cache for a few facts, most of which matter to masks alone.
    """

    is_compileable = False

    def __init__(self, tensors: list[torch.Tensor], position: torch.Tensor, length: int) -> None:
        self.tensors, self.position, self.length = list(tensors), position, length

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is new, and nothing else."""
        return keys, values

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """A layer's attention; ``[1, heads, tokens, size]``, and the result transposed."""
        rows = [x.squeeze(0).transpose(0, 1) for x in (q, k, v)]
        place = slice(2 * layer, 2 * layer + 2)
        found, *new = attend(*rows, self.position, *self.tensors[place], scale)
        self.tensors[place] = new
        return found.unsqueeze(0)

    def get_seq_length(self, *_: Any) -> int:
        """No row counts as written: positions are given."""
        return 0

    def get_mask_sizes(self, *_: Any) -> tuple[int, int]:
        """Of masks, which are not made."""
        return self.length, 0

    def get_max_cache_shape(self, *_: Any) -> int:
        """Rows of the caches."""
        return self.length


class _Seen(_Caches):
    """Looks how large the keys of each layer are, and finds nothing."""

    def __init__(self, length: int) -> None:
        super().__init__([], torch.zeros(1, dtype=torch.int64), length)
        self.shapes: dict[int, tuple[int, int, int]] = {}

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Note the shape."""
        if k.shape != v.shape or q.shape[-1] != k.shape[-1]:
            raise ModelError(
                f"layer {layer} has queries, keys and values of {q.shape[-1]}, {k.shape[-1]} and "
                f"{v.shape[-1]} numbers a head; expected equal ones"
            )
        self.shapes[layer] = (k.shape[1], self.length, k.shape[3])
        return torch.zeros_like(q).transpose(1, 2)


class _ExportStep(nn.Module):
    """A model as a function of the tokens, their position and the caches."""

    caches: _Caches | None = None

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model, self.cache_name = model, cache_name(model)

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, caches: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """The logits of all tokens, and the caches afterwards."""
        kept = _Caches(caches, position, caches[0].shape[1])
        return (self.run(token, position, kept), *kept.tensors)

    def run(self, token: torch.Tensor, position: torch.Tensor, caches: _Caches) -> torch.Tensor:
        """The logits; attention finds its caches meanwhile."""
        places = position + torch.arange(token.shape[0])
        _ExportStep.caches = caches
        try:
            return self.model(
                input_ids=token[None], position_ids=places[None], use_cache=True,
                **{self.cache_name: caches},
            ).logits  # fmt: skip
        finally:
            _ExportStep.caches = None


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in a layer."""
    assert _ExportStep.caches is not None
    length = _ExportStep.caches.length
    window = others.pop("sliding_window", None)
    wanted = {n: v for n, v in others.items() if n not in _HARMLESS and v not in (None, False)}
    if others.get("is_causal") is False:
        wanted["is_causal"] = False
    if window is not None and window < length:
        wanted["sliding_window"] = window
    if wanted or attention_mask is not None:
        name, given = next(iter(wanted.items()), ("attention_mask", "given"))
        raise ModelError(
            f"attention with {name}={given!s:.40} is not supported: expected softmax over all "
            "tokens that came before, no window, cap, sink or bias"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    layer: Any = module.layer_idx
    return _ExportStep.caches.attend(layer, query, key, value, scale), None


@contextmanager
def _our_attention(model: PreTrainedModel) -> Iterator[None]:
    """While it lasts, the model calls our attention.

    Raises
    ------
    ModelError
        If it calls its own, whatever it is told.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attention)
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation(_NAME)
        if model.config._attn_implementation != _NAME:  # transformers only warns of it
            raise ModelError(
                f"{type(model).__name__} does not call attention by name, so it cannot be exported "
                f"with ours; {_CURE}"
            )
        yield
    finally:
        model.set_attn_implementation(before)
