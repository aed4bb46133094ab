"""Pictures with lines of text, as a camera would send them: they move, flicker and have noise.

A picture is an array of bytes of one channel, 255 is white. A real camera goes where `camera` is:
anything that yields such arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import ndimage

Picture = np.ndarray[Any, np.dtype[np.uint8]]

PIXEL = 5  # of the picture, for each of a letter's: letters are 25 wide and 35 high
PITCH = 6 * PIXEL  # from letter to letter
HEIGHT, WIDTH = 320, 320
SIGNS = (("GATE B7", "DEPARTS 9"), ("BUS 42", "CENTRAL"), ("TRAIN K4", "TRACK 3", "LATE"))
_PAPER, _INK, _NOISE = 225.0, 30.0, 3.0
_SMOOTH = 1.0  # pixels: edges as a lens makes them
_STAYS = 15  # frames until the sign changes

# Seven rows of five pixels, each row the bits of a number.
_LETTERS = {
    "0": "0E11131519110E", "1": "040C040404040E", "2": "0E11010204081F", "3": "1F02040201110E",
    "4": "02060A121F0202", "5": "1F101E0101110E", "6": "0608101E11110E", "7": "1F010204080808",
    "8": "0E11110E11110E", "9": "0E11110F01020C", "A": "0E1111111F1111", "B": "1E11111E11111E",
    "C": "0E11101010110E", "D": "1C12111111121C", "E": "1F10101E10101F", "F": "1F10101E101010",
    "G": "0E11101711110F", "H": "1111111F111111", "I": "0E04040404040E", "J": "0702020202120C",
    "K": "11121418141211", "L": "1010101010101F", "M": "111B1515111111", "N": "11111915131111",
    "O": "0E11111111110E", "P": "1E11111E101010", "Q": "0E11111115120D", "R": "1E11111E141211",
    "S": "0F10100E01011E", "T": "1F040404040404", "U": "1111111111110E", "V": "11111111110A04",
    "W": "1111111515150A", "X": "11110A040A1111", "Y": "1111110A040404", "Z": "1F01020408101F",
}  # fmt: skip


def letter(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A letter or digit as 35 x 25 pixels, 1 where there is ink; all 0 for a blank."""
    rows = bytes.fromhex(_LETTERS[name]) if name != " " else bytes(7)
    bits = [[row >> column & 1 for column in reversed(range(5))] for row in rows]
    return np.kron(np.array(bits, np.float64), np.ones((PIXEL, PIXEL)))


def draw(lines: Sequence[str], top: int, left: int) -> Picture:
    """A picture of lines below each other, the first one's upper left corner at (top, left)."""
    ink = np.zeros((HEIGHT, WIDTH))
    for number, line in enumerate(lines):
        row = top + number * 18 * PIXEL
        for place, name in enumerate(line):
            column = left + place * PITCH
            ink[row : row + 7 * PIXEL, column : column + 5 * PIXEL] = letter(name)
    ink = ndimage.gaussian_filter(ink, _SMOOTH)
    return np.asarray(_PAPER + (_INK - _PAPER) * ink, np.uint8)


def camera(count: int, seed: int = 0) -> Iterator[tuple[tuple[str, ...], Picture]]:
    """So many pictures, each with the lines that are in it."""
    rng = np.random.default_rng(seed)
    top, left = 40, 20
    for number in range(count):
        lines = SIGNS[number // _STAYS % len(SIGNS)]
        # It trembles, but keeps in the picture.
        top = int(np.clip(top + rng.integers(-3, 4), 30, 80))
        left = int(np.clip(left + rng.integers(-3, 4), 15, 40))
        noise = rng.normal(0.0, _NOISE, (HEIGHT, WIDTH)) + rng.normal(0.0, _NOISE)
        seen = draw(lines, top, left) + noise
        yield lines, np.clip(seen, 0, 255).astype(np.uint8)
