"""``tvm-hetero serve``: models over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_hetero.cli.shared.clusters import ClusterOption, place_decoder
from tvm_hetero.cli.shared.completion import offer, serving_policies
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.serving import read_key, read_levels
from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]MODEL.hetero[,BATCH.hetero]...",
            help="What is served; behind commas the same model, partitioned for batches.",
        ),
    ],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    slo: Annotated[
        list[str] | None,
        typer.Option("--slo", metavar="NAME=20ms", help="When a model's answers are due."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="How cores are shared: accordion, one-stage, whole-machine, slo-conforming, ...",
            autocompletion=offer(serving_policies),
        ),
    ] = "accordion",
    best_effort: Annotated[
        bool,
        typer.Option("--best-effort", help="Take what cannot be in time, too: it may be late."),
    ] = False,
    adapt: Annotated[
        bool,
        typer.Option("--adapt", help="Tell what disturbs plans; move stages of unlike cores."),
    ] = False,
    admin: Annotated[
        bool, typer.Option("--admin", help="Models can be loaded and unloaded over HTTP.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="The key that clients must send.")
    ] = None,
    admin_key_file: Annotated[
        Path | None, typer.Option("--admin-key-file", help="The key for administration.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A further name of this server.")
    ] = None,
    drain: Annotated[
        float, typer.Option("--drain-seconds", metavar="S", min=0.0, help="To end what runs.")
    ] = 30.0,
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", metavar="URL", help="Send a span of each request to a collector."),
    ] = None,
    cluster: ClusterOption = None,
    compatible_metrics: Annotated[
        bool, typer.Option("--compatible-metrics", help="Names of Triton and vLLM, too.")
    ] = False,
) -> None:
    """Serve partitioned models over HTTP."""
    try:
        import tornado  # noqa: F401
    except ImportError:
        raise UsageError("serving needs: pip install 'tvm_hetero[serve]'") from None
    from tvm_hetero.serve.core.options import ServeOptions
    from tvm_hetero.serve.lifecycle import serve_until_signal
    from tvm_hetero.serve.server import ModelServer, name_models
    from tvm_hetero.serve.traces.spans import SpanMaker, otlp_exporter

    named = name_models(models)
    options = ServeOptions(
        host=host, port=port, policy=policy, best_effort=best_effort, adapt=adapt,
        slo=read_slo(slo or (), named), admin=admin, key=read_key(key_file),
        admin_key=read_key(admin_key_file), hosts=tuple(allow_host or ()), drain=drain,
        compatible_metrics=compatible_metrics,
    )  # fmt: skip
    steps = Steps(quiet=False)
    run = event_loop()
    with _placed_decoders(steps, named, cluster) as placed:
        spans = SpanMaker(otlp_exporter(otlp)) if otlp else None
        server = ModelServer(named, options, placed=placed, spans=spans)
        status = run(serve_until_signal(server, steps.say))
    raise typer.Exit(status)


@contextmanager
def _placed_decoders(
    steps: Steps, named: Mapping[str, Sequence[Path]], cluster: str | None
) -> Iterator[dict[str, Any]]:
    """Decoders among the models, placed on the nodes of a cluster, which end with the block."""
    from tvm_hetero.artifact.kinds import is_decoder

    with ExitStack() as stack:
        if cluster is None:
            yield {}
            return
        decoders = {name: paths[0] for name, paths in named.items() if is_decoder(paths[0])}
        if not decoders:
            raise UsageError("--cluster is for decoders, and none of the models is one")
        yield {
            name: stack.enter_context(place_decoder(steps, path, cluster))
            for name, path in decoders.items()
        }


def event_loop() -> Callable[[Coroutine[Any, Any, int]], int]:
    """What runs the server: uvloop, where it is installed, takes a tenth from each request."""
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.run
    return uvloop.run


def read_slo(given: Iterable[str], models: Collection[str]) -> dict[str, float]:
    """Seconds by model from ``NAME=20ms``.

    Raises
    ------
    UsageError
        If a text is no such time, of a model that is not served, or one of two for a model.
    """
    levels = read_levels(given)
    for name, times in levels.items():
        if name not in models:
            raise UsageError(f"--slo {name}: no model is called {name!r}{nearest(name, models)}")
        if len(times) > 1:
            raise UsageError(f"--slo {name}: is given twice")
    return {name: times[0] for name, times in levels.items()}
