"""Log-probabilities as the two protocols write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvm_hetero.serve.openai.choices import PlacedToken
from tvm_hetero.serve.text.folder import FolderTexts


def completion_logprobs(
    placed: Sequence[PlacedToken], texts: FolderTexts | None
) -> dict[str, list[Any]]:
    """Lists that go side by side. A token that stands first has no probability, so null."""
    return {
        "text_offset": [each.offset for each in placed],
        "token_logprobs": [None if each.is_first else each.scored.logprob for each in placed],
        "tokens": [_label(each.scored.token, texts) for each in placed],
        "top_logprobs": [None if each.is_first else _top(each, texts) for each in placed],
    }


def chat_logprobs(placed: Iterable[PlacedToken], texts: FolderTexts | None) -> dict[str, Any]:
    """An object for each token."""
    content = [
        {
            **_entry(each.scored.token, each.scored.logprob, texts),
            "top_logprobs": [_entry(token, value, texts) for token, value in each.scored.top],
        }
        for each in placed
    ]
    return {"content": content, "refusal": None}


def _top(placed: PlacedToken, texts: FolderTexts | None) -> dict[str, float]:
    """By the token's text, the likeliest first; of two that are written alike the likelier one.
    The token that stands there is always among them."""
    found: dict[str, float] = {}
    for token, value in (*placed.scored.top, (placed.scored.token, placed.scored.logprob)):
        found.setdefault(_label(token, texts), value)
    return found


def _entry(token: int, value: float, texts: FolderTexts | None) -> dict[str, Any]:
    data = None if texts is None else list(texts.tokenizer.bytes_of(token))
    return {"token": _label(token, texts), "logprob": value, "bytes": data}


def _label(token: int, texts: FolderTexts | None) -> str:
    return f"token_id:{token}" if texts is None else texts.tokenizer.label(token)
