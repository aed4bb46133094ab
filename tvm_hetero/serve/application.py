"""The table of all routes."""

from __future__ import annotations

from tvm_hetero.serve.admin import repository
from tvm_hetero.serve.http import openapi
from tvm_hetero.serve.http.routes import HttpRoute
from tvm_hetero.serve.oip import health, infer, metadata, model_stats
from tvm_hetero.serve.openai import chat, completions, embeddings, handler, models, tokens
from tvm_hetero.serve.page import assets, scrape, viewers

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
        HttpRoute(r"/v1/models", models.Models),
        HttpRoute(r"/v1/models/(?P<name>.{1,256})", models.Model),
        HttpRoute(r"/v1/completions", completions.TextCompletions),
        HttpRoute(r"/v1/chat/completions", chat.ChatCompletions),
        HttpRoute(r"/v1/embeddings", embeddings.Embeddings),
        HttpRoute(r"/tokenize", tokens.Tokenize),
        HttpRoute(r"/detokenize", tokens.Detokenize),
        HttpRoute(r"/tokenizer_info", tokens.TokenizerInfo),
        HttpRoute(r"/v1/.*", handler.UnknownPath),
        HttpRoute(r"/metrics", scrape.Scrape),
        HttpRoute(r"/", assets.PageFile),
        HttpRoute(r"/page/state\.json", viewers.PageState),
        HttpRoute(r"/page/events", viewers.PageEvents),
        HttpRoute(r"/page/(?P<name>[a-z_.]{1,40})", assets.PageFile),
        HttpRoute(r"/page/plans/(?P<name>[^/]{1,256})", viewers.PagePlan),
    ]
