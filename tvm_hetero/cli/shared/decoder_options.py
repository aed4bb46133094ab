"""What ``plan`` and ``simulate`` are both told of a decoder, and the request that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tvm_hetero.cli.shared.completion import decoders, offer, platforms
from tvm_hetero.cli.shared.platforms import resolve_platform
from tvm_hetero.cli.shared.zoo_settings import parse_setting
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.planning import DecoderRequest

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A decoder of the zoo, such as gpt3-175b.",
        autocompletion=offer(decoders),
    ),
]
PlatformName = Annotated[
    str,
    typer.Option(
        "--platform",
        help="A file, or a name such as gpt3-6node or h100x8:4+t4x4:2@ethernet-25.",
        autocompletion=offer(platforms),
    ),
]
Goal = Annotated[
    str,
    typer.Option(
        "--objective",
        help="latency of a token, or throughput of many sequences.",
        autocompletion=offer(lambda: ("latency", "throughput")),
    ),
]
SequencesInBatch = Annotated[
    int, typer.Option("--batch", min=1, help="Sequences that take a step together.")
]
InFlight = Annotated[
    int | None,
    typer.Option(
        "--in-flight",
        min=1,
        help="Batches under way together, with caches of their own. "
        "[default: 1; for throughput as many as keep devices busy]",
    ),
]
Context = Annotated[
    int | None, typer.Option("--context", min=0, help="Tokens in every cache. [default: 2048]")
]
Shards = Annotated[
    int | None, typer.Option("--shards", min=1, help="Tasks that each layer's parts are cut into.")
]
Weights = Annotated[
    str | None, typer.Option("--weights", help="float16, bfloat16, int8, int4 or float32.")
]
Grain = Annotated[
    str | None,
    typer.Option(
        "--grain",
        help="Tasks of a layer: halves, attention (by itself), or products (each alone), for "
        "memories that compute. [default: halves]",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the model; repeatable."),
]


def read_request(
    model: str,
    platform: str,
    objective: str,
    batch: int,
    in_flight: int | None,
    given: dict[str, Any],
    settings: list[str] | None,
) -> DecoderRequest:
    """What is to be planned.

    Parameters
    ----------
    given : parameters of the model that have options of their own; None where they were not used.

    Raises
    ------
    UsageError
        If the model is no decoder, or a name, number or parameter makes no sense.
    """
    from tvm_hetero import zoo
    from tvm_hetero.planning import DecoderRequest

    entry = zoo.describe(model)
    if not entry.is_decoder:
        raise UsageError(f"{model} is no decoder of the zoo; expected one such as gpt3-175b")
    parameters = {key: value for key, value in given.items() if value is not None}
    for key in parameters:
        if key not in entry.parameters:
            raise UsageError(f"--{key}: {model} cannot be cut that way; leave it out")
    parameters |= dict(parse_setting(model, entry, text) for text in settings or [])
    return DecoderRequest(
        model, resolve_platform(platform), _goal(objective), batch, in_flight, parameters
    )


def _goal(objective: str) -> Literal["latency", "throughput"]:
    if objective == "latency":
        return "latency"
    if objective == "throughput":
        return "throughput"
    raise UsageError(f"--objective {objective!r}: expected latency or throughput")
