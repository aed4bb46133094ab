"""What a machine can run out of, which is no fault of what it was doing.

A kernel that does not compile is left out; one that does not compile since the disk is full must
not be, or a full disk decides where a model runs.  Children and linkers say so in words alone.
"""

from __future__ import annotations

import errno
import os

_NUMBERS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE,
)  # fmt: skip


def exhausted(error: BaseException) -> str | None:
    """The system's word for what is used up or gone, None if the error has another cause.

    Parameters
    ----------
    error : BaseException
        With a number of the system's, or with its words in the text.
    """
    for number in _NUMBERS:
        words = os.strerror(number)
        if getattr(error, "errno", None) == number or words in str(error):
            return words
    return None
