"""The complete search in C++: what it is told is checked, and symmetries change no value."""

from __future__ import annotations

import math

import pytest

from tests.fuzz.small_problems import small_problem
from tests.solvers.examples import fork_join, topcuoglu
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.solvers.exhaustive.divisions import divisions
from tvm_hetero.solvers.native.complete import CompleteAnswer, search_all
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import Symmetry, find_symmetry

_AMPLE = 3_000_000


def search(
    instance: Instance,
    images: list[tuple[int, ...]],
    symmetry: Symmetry | None = None,
    cutoff: float = math.inf,
    work: int = _AMPLE,
) -> CompleteAnswer:
    """All that is left of the symmetry of elements and devices."""
    devices = symmetry or Symmetry(len(instance.names))
    return search_all(
        NativeSearch(instance), images, devices, cutoff=cutoff, work=work, deadline=1000.0
    )


@pytest.mark.parametrize("seed", range(40))
def test_symmetries_save_work_and_change_no_value(seed: int) -> None:
    problem = small_problem(seed)
    try:
        listed = list(divisions(problem))[-6:]
        instances = [Instance(problem, divided.parts) for divided in listed]
    except HeteroError:
        return
    for divided, instance in zip(listed, instances, strict=True):
        plain = search(instance, [])
        if not plain.finished:
            continue
        fewer = search(instance, divided.images(instance), find_symmetry(problem))
        assert fewer.finished
        assert fewer.value == pytest.approx(plain.value, rel=1e-8)


def test_equal_devices_are_tried_in_one_order() -> None:
    problem = fork_join(6, overlap=False)
    instance = Instance(problem)
    plain, fewer = search(instance, []), search(instance, [], find_symmetry(problem))
    assert plain.value == fewer.value
    assert fewer.work < plain.work


def test_out_of_work_it_says_that_it_is_not_finished() -> None:
    answer = search(Instance(topcuoglu()), [], work=50)
    assert not answer.finished and answer.work >= 50


def test_nothing_below_the_optimum_is_found_and_that_is_all_there_is() -> None:
    instance = Instance(topcuoglu())
    best = search(instance, [])
    assert (best.finished, best.value) == (True, 73.0)
    again = search(instance, [], cutoff=best.value)
    assert (again.finished, again.value) == (True, math.inf)


def test_an_image_that_is_no_permutation_is_refused() -> None:
    instance = Instance(fork_join(2))
    for row in [(0, 0, 1, 2), (0, 1, 2, 4), (-1, 1, 2, 3)]:
        with pytest.raises(SolverError, match="no permutation of the parts"):
            search(instance, [row])


def test_a_device_that_is_not_there_is_refused() -> None:
    instance = Instance(fork_join(2))
    with pytest.raises(SolverError, match="no such device"):
        search(instance, [], Symmetry(2, twins=((7, 1),)))
