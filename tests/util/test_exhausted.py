"""What is used up is known by its number, and by the words that children and linkers pass on."""

from __future__ import annotations

import errno

import pytest

from tvm_hetero.util.exhausted import exhausted


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "any"), "No space left on device"),
        (OSError(errno.EMFILE, "any"), "Too many open files"),
        (RuntimeError("ld: final link failed: No space left on device"), "No space left on device"),
        (OSError(errno.ENOENT, "No such file"), None),
        (ValueError("unknown intrinsic"), None),
    ],
)
def test_words_and_numbers(error: Exception, words: str | None) -> None:
    assert exhausted(error) == words
