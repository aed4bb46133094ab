"""What ``generate --stream`` prints while tokens come.

Without texts a line ``SEQUENCE TOKEN`` for each token. With a tokenizer and one prompt its text, as
it would stand in the end; with several prompts a line ``SEQUENCE TEXT`` for each piece of text.
With ``--json`` lines of ``{"sequence": 0, "token": 5, "text": "a"}``. A character that is spread
over tokens is printed when it is whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm_hetero.serve.text.tokenizer import TextTokenizer

_KEPT = "\n\t"  # of the invisible characters: what gives a text its form


class TokenStream:
    """Prints tokens, or texts, as they come.

    Parameters
    ----------
    count : sequences that there will be.
    tokenizer : for texts; None: tokens are printed.
    as_json : whether a line is JSON.
    """

    def __init__(self, count: int, tokenizer: TextTokenizer | None, as_json: bool) -> None:
        self._as_json, self._flows = as_json, count == 1
        self._texts = []
        if tokenizer is not None:
            from tvm_hetero.serve.text.detokenizer import Detokenizer

            self._texts = [Detokenizer(tokenizer) for _ in range(count)]

    def tell(self, sequence: int, token: int) -> None:
        """A token has come."""
        text = self._texts[sequence].push(token) if self._texts else None
        if self._as_json:
            more = {} if text is None else {"text": text}
            typer.echo(json.dumps({"sequence": sequence, "token": token, **more}))
        elif text is None:
            typer.echo(f"{sequence} {token}")
        else:
            self._print(sequence, text)

    def finish(self) -> None:
        """All have come: what waited for the rest of a character is printed as it is."""
        for sequence, waiting in enumerate(self._texts):
            rest = waiting.finish()
            if self._as_json and rest:
                typer.echo(json.dumps({"sequence": sequence, "text": rest}))
            elif not self._as_json:
                self._print(sequence, rest)
        if self._texts and self._flows and not self._as_json:
            typer.echo()

    def _print(self, sequence: int, text: str) -> None:
        if self._flows:
            safe = "".join(c if c in _KEPT else printable(c, None) for c in text)
            typer.echo(safe, nl=False)
        elif text:
            typer.echo(f"{sequence} {printable(text, None)}")
