"""Faults on purpose, seen from a whole model: each request ends, and the next one is served."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm_ffi

from tests.executor.gated import WAIT
from tests.models import branchy_inputs, placed, two_cpus
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.executor import native
from tvm_hetero.executor.executor import Executor

FAULTS = ("kernel", "copy", "allocation", "worker", "workspace")


def inject(kind: str, nth: int) -> None:
    """Let the nth thing of a kind fail from now on (0: none)."""
    tvm_ffi.get_global_func("tvm_hetero.inject_fault")(kind, nth)


@pytest.fixture(scope="module")
def apart() -> Executable:
    """The small model on two devices, one with a memory of its own."""
    platform = two_cpus()
    big, little = platform.devices
    devices = (big, replace(little, private=True))
    return build(placed(2, replace(platform, devices=devices)), single=False)


@pytest.mark.parametrize("kind", FAULTS)
def test_the_nth_fault_ends_requests_and_the_next_one_is_served(
    apart: Executable, kind: str
) -> None:
    inputs = [dict(zip(("in/x", "y"), branchy_inputs(i), strict=True)) for i in range(5)]
    with Executor(apart) as executor:
        expected = [[out.numpy().tobytes() for out in executor.run(each)] for each in inputs]
        failures = 0
        for nth in range(1, 30, 2):
            inject(kind, nth)
            pending = [executor.submit(each) for each in inputs]
            for each, right in zip(pending, expected, strict=True):
                error = each.exception(WAIT)
                if error is None:
                    assert [out.numpy().tobytes() for out in each.result()] == right
                else:
                    assert isinstance(error, RunError)
                    assert "injected fault" in str(error) or "died" in str(error)
                    failures += 1
            inject(kind, 0)
            assert [out.numpy().tobytes() for out in executor.run(inputs[0])] == expected[0]
        assert failures > 0 or kind == "allocation"  # all memory is there already


def test_the_nth_allocation_that_fails_while_loading_is_an_error_of_ours(apart: Executable) -> None:
    native.load_library()
    refused = 0
    for nth in range(1, 80):
        inject("allocation", nth)
        try:
            Executor(apart).close()
        except HeteroError as error:
            assert "injected fault" in str(error)
            refused += 1
        finally:
            inject("allocation", 0)
    assert 0 < refused < 79
    assert len(Executor(apart).run(dict(zip(("in/x", "y"), branchy_inputs(), strict=True)))) == 2
