"""Log lines are few and harmless."""

from __future__ import annotations

import io
import logging

from tvm_hetero.serve.logs import PrintableLines, RateLimit


def _logged(messages, limit=None, **more):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PrintableLines())
    if limit is not None:
        handler.addFilter(limit)
    for message in messages:
        handler.handle(logging.makeLogRecord({"msg": message, "levelname": "ERROR", **more}))
    return stream.getvalue().splitlines()


def test_many_lines_become_few_and_how_many_are_missing_is_told():
    limit = RateLimit(rate=0.0, burst=3)
    assert len(_logged(["again"] * 1000, limit)) == 3
    limit._left = 1.0  # time has passed
    assert _logged(["later"], limit)[0].endswith("later (and 997 lines were left out)")


def test_what_a_terminal_obeys_is_not_written():
    (line,) = _logged(["GET /\x1b[2J\nroot: all is well"])
    assert "\x1b" not in line and "all is well" in line


def test_a_traceback_keeps_its_lines():
    try:
        raise ValueError("\x1b[31mred")
    except ValueError as error:
        lines = _logged(["failed"], exc_info=(type(error), error, error.__traceback__))
    assert len(lines) > 3
    assert not any("\x1b" in line for line in lines)
