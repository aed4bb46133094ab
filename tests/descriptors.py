"""Open descriptors in tests: which are new, and a limit that leaves just so many more.

Other tests' threads and garbage may close some of theirs at any moment, so no count of all is held
against another one; and a limit is a number that no descriptor reaches, not how many there are:
below it there may be gaps.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


def open_descriptors() -> set[tuple[int, str]]:
    """Numbers of what is open in this process, and what each of them is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # it was the listing's own
            continue
    return found


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """So many more may be opened within the block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {number for number, _ in open_descriptors()}
    free = (number for number in range(limits[0]) if number not in taken)
    first_refused = next(number for place, number in enumerate(free) if place == count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_refused, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
