"""Decimals as tensors in JSON have them, read in C++, against Python's `float`.

    python -m tests.fuzz.decimals [--count N] [--first SEED]

A seed is ten thousand decimals of one form, in one text. Each must have the bits that Python gives
it (`src/support/short_decimal.h` rounds most of them by itself): where any differs, or the text is
not taken, the seed is a fault.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.serve.oip.test_numbers import all_steps
from tvm_hetero.serve.oip.native_numbers import fill_from_json

_COUNT = 10_000
_WIDEST = 10**19
Form = Callable[[np.random.Generator], list[str]]


def _any_digits(rng: np.random.Generator) -> list[str]:
    """All numbers of digits, before the point and behind it, also more than 64 bits hold."""
    digits = rng.integers(0, _WIDEST, (_COUNT, 2), np.uint64)
    cuts = rng.integers(1, 20, (_COUNT, 2))
    signs = np.where(rng.random(_COUNT) < 0.5, "-", "")
    return [
        f"{sign}{int(a) % 10 ** int(m)}.{int(b) % 10 ** int(n):0{n}d}"
        for sign, (a, b), (m, n) in zip(signs, digits, cuts, strict=True)
    ]


def _between_doubles(rng: np.random.Generator) -> list[str]:
    """In the middle between two doubles, or a last digit beside it."""
    # An odd number of 54 bits, halved some times: each time takes one digit more behind the point.
    halves = rng.integers(0, 4, _COUNT)
    odd = rng.integers(1 << 52, 1 << 53, _COUNT) * 2 + 1
    found = []
    for n, k, beside in zip(odd, halves, rng.integers(-1, 2, _COUNT), strict=True):
        places = max(int(k), 2)
        scaled = int(n) * 10**places // 2 ** int(k) + int(beside)
        found.append(f"{scaled // 10**places}.{scaled % 10**places:0{places}d}")
    return found


def _as_programs_write(rng: np.random.Generator) -> list[str]:
    """What weights and activations are, by `repr` of both precisions."""
    values = rng.standard_normal(_COUNT) * 10.0 ** rng.integers(-3, 5, _COUNT)
    single = values.astype(np.float32)
    narrow = rng.random(_COUNT) < 0.5
    return [
        np.format_float_positional(b if is_narrow else a, unique=True)
        for a, b, is_narrow in zip(values, single, narrow, strict=True)
    ]


FORMS: dict[str, Form] = {
    "any digits": _any_digits,
    "between doubles": _between_doubles,
    "as programs write": _as_programs_write,
}


def attempt(seed: int) -> tuple[str, str]:
    """The form of a seed; and in what it differs, or nothing."""
    rng = np.random.default_rng(seed)
    form = str(rng.choice(sorted(FORMS)))
    texts = [text + "0" * text.endswith(".") for text in FORMS[form](rng)]
    for dtype in ("float64", "float32"):
        read = np.empty(len(texts), dtype)
        text = f"[{','.join(texts)}]".encode()
        if not all_steps(fill_from_json(text, read, is_nested=False)):
            return form, f"{dtype}: the text is not taken"
        wanted = np.array([float(text) for text in texts]).astype(dtype)
        unlike = np.flatnonzero(read.view(f"u{read.itemsize}") != wanted.view(f"u{read.itemsize}"))
        if unlike.size:
            i = int(unlike[0])
            return form, f"{dtype}: {texts[i]} is read as {read[i]!r}, not {wanted[i]!r}"
    return form, ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try seeds one after the other; 1 if there was a fault."""
    asked = harness_parser(__doc__).parse_args(arguments)
    outcomes: Counter[str] = Counter()
    faults = 0
    for seed in seeds(asked):
        form, fault = attempt(seed)
        outcomes[form] += 1
        if fault:
            faults += 1
            print(f"seed {seed} ({form}): {fault}", flush=True)
    return conclude(__file__, asked.first, outcomes, faults)


if __name__ == "__main__":
    sys.exit(main())
