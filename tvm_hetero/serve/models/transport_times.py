"""What reading and writing take around computing, by the form and the size of a request.

A deadline holds for the answer, so what computing is allowed is less by what writing takes, and at
the door, before the body is there, by what reading takes, too: numbers of SqueezeNet's input as
JSON are milliseconds. Predicted is the median of the last samples of the same form and of a size
within a factor of two; the answer's size follows from the request's. Where there are few samples
nothing is predicted. How long a client takes to send its body is not counted: others are not it.
"""

from __future__ import annotations

from typing import NamedTuple

from tvm_hetero.util.sliding_window import SlidingWindow

WINDOW = 32
FEW = 5


class BodyForm(NamedTuple):
    """How a request is written, and how long it is, in powers of two; 0: that was not told."""

    form: str
    magnitude: int


def form_of(form: str, length: str) -> BodyForm:
    """Of a form's name and a Content-Length."""
    size = int(length) if length.isdecimal() and len(length) <= 12 else 0
    return BodyForm(form, size.bit_length())


class TransportTimes:
    """Seconds of one phase of a model's requests; forms and sizes are few, so are rows."""

    def __init__(self) -> None:
        self._samples: dict[BodyForm, SlidingWindow] = {}
        self._typical: dict[BodyForm, float] = {}

    def add(self, form: BodyForm, seconds: float) -> None:
        """Take a sample."""
        window = self._samples.get(form)
        if window is None:
            window = self._samples[form] = SlidingWindow(WINDOW)
        window.add(seconds)
        if len(window) >= FEW:
            self._typical[form] = window.quantile(0.5)

    def doubt(self, form: BodyForm) -> None:
        """A request was refused for want of time: forget the oldest sample.

        What is refused is not measured, so that what was slow once would refuse for ever.
        """
        window = self._samples.get(form)
        if not window:
            return
        window.drop_oldest()
        if len(window) >= FEW:
            self._typical[form] = window.quantile(0.5)
        else:
            self._typical.pop(form, None)

    def typical(self, form: BodyForm) -> float:
        """The median in s; 0 where fewer than `FEW` were measured."""
        return self._typical.get(form, 0.0)
