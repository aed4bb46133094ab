"""The table of all routes."""

from __future__ import annotations

from tvm_hetero.serve.admin import repository
from tvm_hetero.serve.http import openapi
from tvm_hetero.serve.http.routes import HttpRoute
from tvm_hetero.serve.oip import health, infer, metadata, model_stats

_MODEL = r"/v2/models/(?P<name>[^/]{1,256})(?:/versions/(?P<version>[0-9]{1,9}))?"


def all_routes() -> list[HttpRoute]:
    """Every path that the server answers."""
    return [
        HttpRoute(rf"{_MODEL}/infer", infer.Infer),  # asked for most: the first that is looked at
        HttpRoute(r"/v2/health/live", health.Live),
        HttpRoute(r"/v2/health/ready", health.Ready),
        HttpRoute(rf"{_MODEL}/ready", health.ModelReady),
        HttpRoute(r"/v2/?", health.ServerMetadata),
        HttpRoute(r"/v2/models/stats", model_stats.AllStats),
        HttpRoute(rf"{_MODEL}/stats", model_stats.ModelStats),
        HttpRoute(rf"{_MODEL}/config", metadata.ModelConfig),
        HttpRoute(_MODEL, metadata.ModelMetadata),
        HttpRoute(r"/v2/repository/index", repository.RepositoryIndex),
        HttpRoute(r"/v2/repository/models/(?P<name>[^/]{1,256})/load", repository.LoadModel),
        HttpRoute(r"/v2/repository/models/(?P<name>[^/]{1,256})/unload", repository.UnloadModel),
        HttpRoute(r"/openapi.json", openapi.OpenApi),
    ]
