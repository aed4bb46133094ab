"""A deep stack is that of one call, which gives and raises as any other."""

from __future__ import annotations

import threading

import pytest

from tvm_hetero.util.deep_stack import call_on_deep_stack


def test_it_gives_what_the_function_gives_and_leaves_the_setting() -> None:
    before = threading.stack_size()
    assert call_on_deep_stack(lambda: threading.current_thread().name) == "deep stack"
    assert threading.stack_size() == before


def test_it_raises_what_the_function_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        call_on_deep_stack(lambda: 1 // 0)
