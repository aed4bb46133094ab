"""The table of all routes."""

from __future__ import annotations

from tvm_hetero.serve.http.routes import HttpRoute
from tvm_hetero.serve.oip import health
from tvm_hetero.serve.openai import chat, completions, embeddings, handler, models, tokens

_MODEL = r"/v2/models/(?P<name>[^/]{1,256})(?:/versions/(?P<version>[0-9]{1,9}))?"


def all_routes() -> list[HttpRoute]:
    """Every path that the server answers."""
    return [
        HttpRoute(r"/v2/health/live", health.Live),
        HttpRoute(r"/v2/health/ready", health.Ready),
        HttpRoute(rf"{_MODEL}/ready", health.ModelReady),
        HttpRoute(r"/v2/?", health.ServerMetadata),
        HttpRoute(r"/v1/models", models.Models),
        HttpRoute(r"/v1/models/(?P<name>.{1,256})", models.Model),
        HttpRoute(r"/v1/completions", completions.TextCompletions),
        HttpRoute(r"/v1/chat/completions", chat.ChatCompletions),
        HttpRoute(r"/v1/embeddings", embeddings.Embeddings),
        HttpRoute(r"/tokenize", tokens.Tokenize),
        HttpRoute(r"/detokenize", tokens.Detokenize),
        HttpRoute(r"/tokenizer_info", tokens.TokenizerInfo),
        HttpRoute(r"/v1/.*", handler.UnknownPath),
    ]
