"""What a user may have meant by a name that is none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from tvm_hetero.util.untrusted_names import printable

# What a hint compares an unknown name with; more would take seconds.
_MOST_COMPARED = 10_000
_LONGEST = 80


def nearest(name: object, known: Iterable[str]) -> str:
    """The end of an error on an unknown name: ``; did you mean 'x'?`` or ``; known: a, b``.

    Names are shown as `printable` shows them. `name` need not be text: YAML has keys such as ``5``
    and ``yes``.
    """
    names = sorted(str(each)[:_LONGEST] for each in islice(known, _MOST_COMPARED))
    # Matching takes the product of the lengths, and names in models may have megabytes.
    close = difflib.get_close_matches(str(name)[:_LONGEST], names, n=1)
    if close:
        return f"; did you mean '{printable(close[0])}'?"
    shown = ", ".join(map(printable, names[:12])) + (", ..." if len(names) > 12 else "")
    return f"; known: {shown}" if names else ""
