"""Talk to a model over OpenAI's API, with nothing but Python: words are shown as they come.

    python chat.py                                   asks, line by line, until an empty one
    python chat.py --url http://localhost:8000 --say "What is a dog?"

OpenAI's own client does, too: ``openai.OpenAI(base_url="http://localhost:8000/v1", api_key="-")``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

Message = dict[str, str]


def main(arguments: Sequence[str] | None = None) -> list[Message]:
    """Chat, and return what was said by both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", default="http://localhost:8000", help="of the server")
    parser.add_argument("--model", default="chat", help="the name that it serves")
    parser.add_argument("--say", action="append", help="instead of asking; may be repeated")
    parser.add_argument(
        "--patience", type=float, default=120, help="seconds to wait for the server"
    )
    parser.add_argument("--most", type=int, default=200, help="tokens of an answer")
    args = parser.parse_args(arguments)
    wait_until_ready(args.url, args.patience)
    said: list[Message] = []
    for line in args.say or iter(_typed, ""):
        said.append({"role": "user", "content": line})
        answer = ""
        for piece in words(args.url, args.model, said, args.most):
            print(piece, end="", flush=True)
            answer += piece
        print()
        said.append({"role": "assistant", "content": answer})
    return said


def _typed() -> str:
    """The next line; empty at the end of the input, too."""
    print("> ", end="", flush=True)
    return sys.stdin.readline().strip()


def wait_until_ready(url: str, patience: float) -> None:
    """Wait until a server that has just been started has loaded its model.

    Raises
    ------
    SystemExit
        It is not there after so many seconds.
    """
    ends = time.monotonic() + patience
    while True:
        try:
            urllib.request.urlopen(f"{url}/v2/health/ready", timeout=10).close()
            return
        except OSError as error:  # nobody listens, or it says 503
            if time.monotonic() > ends:
                raise SystemExit(f"no server is ready at {url}: {error}") from None
            time.sleep(0.2)


def words(url: str, model: str, said: Sequence[Message], most: int) -> Iterator[str]:
    """The answer to a chat, piece by piece.

    Raises
    ------
    SystemExit
        The server says what is wrong, or it fails on the way.
    """
    asked = {"model": model, "messages": said, "max_completion_tokens": most, "stream": True}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as reply:
            for line in reply:
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    yield _piece(json.loads(line.removeprefix(b"data: ")))
    except urllib.error.HTTPError as refused:
        raise SystemExit(f"{refused.code}: {refused.read().decode(errors='replace')}") from None


def _piece(event: dict[str, Any]) -> str:
    """What an event adds to the answer."""
    if "error" in event:
        raise SystemExit(event["error"]["message"])
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


if __name__ == "__main__":
    main()
