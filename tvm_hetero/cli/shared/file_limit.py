"""How many files a process may have open, seen before anything needs one.

Below some dozens imports of Python fail halfway, and children end before they can say why: the
model was called damaged for it.
"""

from __future__ import annotations

import contextlib
import resource

FEWEST = 64


def too_few_files() -> str | None:
    """Raise a low limit as far as it may be; what is wrong where that is not enough, else None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= FEWEST:
        return None
    reached = FEWEST if hard == resource.RLIM_INFINITY else min(FEWEST, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (reached, hard))
    left = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if left >= FEWEST:
        return None
    return (
        f"this process may have {left} files open at once, and {FEWEST} are needed: raise ulimit -n"
    )
