"""How much of a machine a saved Relay program may claim before it is refused.

What is counted is counted before it is parsed or allocated: a JSON file of brackets grows
fifty-fold when it is parsed, a base64 constant shrinks.

A program of densenet121 (374 calls) has 9,400 objects or 23,000 words. The caps leave room for one
of two thousand such calls, and the worst file within them is refused in under a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvm_hetero.errors import ModelError
from tvm_hetero.util.plain_file import read_at_most


@dataclass(frozen=True)
class RelayLimits:
    """Caps that are checked before anything of that size is allocated.

    Attributes
    ----------
    file_bytes : int
        Size of a saved program, its constants included.
    values : int
        Numbers, texts, lists and objects in its JSON.
    nodes : int
        Objects of a saved graph; a quarter of them in the metadata of a text.
    params_bytes : int
        Size of a ``.params`` file.
    steps : int
        Operators once all functions are inlined.
    work : int
        Expressions, fields of tuples and types that are looked at once all functions are inlined.
    rank : int
        Dimensions of any tensor.
    text_bytes : int
        Size of a program in text, without the metadata at its end.
    tokens : int
        Words, numbers and signs in a text, those in its comments with types included.
    depth : int
        Parentheses within parentheses in a text.
    """

    file_bytes: int = 512 * 2**20
    values: int = 600_000
    nodes: int = 50_000
    params_bytes: int = 16 * 2**30
    steps: int = 20_000
    work: int = 120_000
    rank: int = 64
    text_bytes: int = 8 * 2**20
    tokens: int = 120_000
    depth: int = 60


DEFAULT_LIMITS = RelayLimits()


@dataclass
class ReadBudget:
    """What may still be looked at: functions, tuples and types can make much of little."""

    most: int
    spent: int = 0

    def spend(self, count: int) -> None:
        """Count what is looked at.

        Raises
        ------
        ModelError
            It is more than there is.
        """
        self.spent += count
        if self.spent > self.most:
            raise ModelError(
                f"more than {self.most} expressions, fields and types once functions are inlined"
            )


def read_file(path: Path, most: int, what: str) -> bytes:
    """Return the content of a plain file of at most `most` bytes.

    Raises
    ------
    ModelError
        There is no such plain file, or it is larger.
    """
    try:
        if not path.is_file():
            found = "is no plain file" if path.exists() else "no such file"
            raise ModelError(f"{path}: {found}; give the path of {what}")
        size = path.stat().st_size
        if size > most:
            raise ModelError(f"{path}: {size} bytes, but {what} may have {most} at most")
        with path.open("rb") as file:
            content = read_at_most(file, most)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise ModelError(f"{path}: grew while it was read, beyond the {most} bytes for {what}")
    return content
