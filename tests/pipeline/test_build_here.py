"""One call from a module to what runs quickest here."""

from __future__ import annotations

import numpy as np

import tvm_hetero as th
from tests.models import branchy, branchy_inputs
from tests.pipeline.conftest import TWO_CORES
from tvm_hetero.executor.choose_division import DIVISIONS
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform.division import usual_divisions
from tvm_hetero.problem import Objective

INPUTS = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))


def outputs(executable: th.Executable) -> list[np.ndarray]:
    with th.Executor(executable) as executor:
        return [np.array(out.numpy()) for out in executor.run(INPUTS)]


def test_it_computes_what_one_device_does_and_says_what_it_compared() -> None:
    built = th.build_here(branchy())
    one = th.build(partition(branchy(), th.Platform.detect(1)).placed)
    for mine, other in zip(outputs(built), outputs(one), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)
    assert built.decision is not None


@TWO_CORES
def test_without_measuring_the_best_by_prediction_is_built() -> None:
    built = th.build_here(branchy(), measure=False)
    teams = usual_divisions(th.Platform.detect())[0].detect()
    assert built.problem.platform.names == teams.names
    assert built.decision is None


def test_for_throughput_nothing_but_divided_cores_is_built() -> None:
    built = th.build_here(branchy(), PartitionOptions(objective=Objective("throughput", 2)))
    assert built.problem.platform.names == th.Platform.detect().names
    assert DIVISIONS not in (built.decision or {})
