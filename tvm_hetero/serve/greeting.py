"""What a server says of itself when it is ready: what it serves, how that is asked, and who may."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.oip.datatypes import datatype_of
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_WIDEST = 160  # characters of a model's line


def greeting(models: Iterable[ServedModel], options: ServeOptions, port: int) -> list[str]:
    """Lines for who started the server: its models, a warning if it is open to all, its address."""
    lines = [printable(_described(model), limit=_WIDEST) for model in models]
    host = f"[{options.host}]" if ":" in options.host else options.host
    if not options.is_loopback and options.key is None:
        lines.append("warning: whoever reaches this address may ask and look; --key-file asks for "
                     "a key")  # fmt: skip
    lines.append(f"ready on http://{host}:{port}/ (a page; /openapi.json lists what can be asked)")
    return lines


def _described(model: ServedModel) -> str:
    facts = [_taken(model)]
    if model.slo is not None:
        facts.append(f"SLO {format_seconds(model.slo)}")
    return f"{model.name}: {'; '.join(facts)}"


def _taken(model: ServedModel) -> str:
    if model.decoder is not None:
        speaks = "text" if model.decoder.texts else "token ids (it has no tokenizer)"
        return (f"generates {speaks}, {model.decoder.length} tokens at most, "
                f"{model.decoder.slots} at once")  # fmt: skip
    assert model.tensors is not None, "one of them is there"
    signature = model.tensors.signature
    sizes = " or ".join(str(each.size) for each in model.tensors.batches)
    batches = f"; queries that wait together by {sizes}" if sizes else ""
    return f"{_listed(signature.inputs)} -> {_listed(signature.outputs)}{batches}"


def _listed(infos: Iterable[TensorInfo]) -> str:
    return ", ".join(f"{each.name} {datatype_of(each.dtype)} {list(each.shape)}" for each in infos)
