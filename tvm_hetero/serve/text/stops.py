"""Texts that end a text, found across the borders of tokens; nothing of them is ever told."""

from __future__ import annotations

from collections.abc import Sequence


class StopScanner:
    """Lets a text through up to the first stop text in it.

    The first is the one that is complete first, of several that end together the longest; so what
    comes out does not depend on how the text was cut into pieces. What may be the beginning of a
    stop text waits until it is none.

    Attributes
    ----------
    is_hit : whether a stop text was found; nothing comes out any more.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.is_hit = False

    def push(self, text: str) -> str:
        """What may be told now."""
        if self.is_hit:
            return ""
        text = self._held + text
        found = [(text.find(stop), stop) for stop in self._stops]
        ends = [(place + len(stop), place) for place, stop in found if place >= 0]
        if ends:
            self.is_hit, self._held = True, ""
            return text[: min(ends)[1]]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What has waited: the text is over, and it was no stop text."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """How many of a text's last letters are the first ones of a stop text, which is not whole."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
