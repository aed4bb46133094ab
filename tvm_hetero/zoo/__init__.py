"""A zoo of scheduling problems: networks with real shapes, on platforms with real figures.

>>> from tvm_hetero import zoo
>>> len(zoo.problem("resnet50", "diviml").tasks)
58

A problem is a network (`names`, each with parameters of its own), a platform (`platform_names`, or
one of your own with `peak_flops` and `bandwidth`) and an objective; costs come from a roofline.
A network that is not here can be given as a list of layer shapes (`tvm_hetero.zoo.layer_lists`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.util.deprecation import deprecated_names
from tvm_hetero.zoo.costs import make_problem
from tvm_hetero.zoo.layer_lists import SUFFIX, read_layer_list
from tvm_hetero.zoo.platforms import cluster, platform, platform_names
from tvm_hetero.zoo.registry import ENTRIES, ZooEntry, entry, work_graph
from tvm_hetero.zoo.work_graph import WorkGraph

__all__ = [
    "WorkGraph",
    "ZooEntry",
    "cluster",
    "describe",
    "names",
    "platform",
    "platform_names",
    "problem",
    "work_graph",
]


def names() -> tuple[str, ...]:
    """The names of all networks."""
    return tuple(ENTRIES)


def describe(name: str) -> ZooEntry:
    """What a network is: words, number of tasks, parameters.

    Raises
    ------
    UsageError
        If there is no such network.
    """
    return entry(name)


def problem(
    name: str,
    platform: str | Platform = "diviml",
    objective: Objective = Objective(),
    *,
    in_flight: int = 1,
    **parameters: Any,
) -> Problem:
    """The problem of running network `name` on a platform.

    Whether it fits into the devices' memories is not looked at: some do not, and are meant to.

    Parameters
    ----------
    name : one of `names`, or a file of layers, which ends in ``.layers``.
    platform : a platform, or the name of one (see `tvm_hetero.zoo.platforms.platform`).
    objective : what is minimised; costs are given for 1, 2, 4, ... elements up to its batch.
    in_flight : batches that are under way together, each with its own keys and values in memory.
    parameters : of the network, such as ``layers=12`` or ``seed=3``.

    Raises
    ------
    UsageError
        If a name or a parameter is unknown, or the parameters do not fit together.
    FormatError
        If a file of layers is none.
    PlatformError
        If a device lacks figures, or none can run a task.
    """
    place = _platform(platform) if isinstance(platform, str) else platform
    return make_problem(_graph(name, parameters), place, objective, in_flight)


def _graph(name: str, parameters: dict[str, Any]) -> WorkGraph:
    if not name.endswith(SUFFIX):
        return work_graph(name, **parameters)
    if parameters:
        raise UsageError(
            f"a file of layers has no parameters, got {', '.join(parameters)}; edit the file"
        )
    return read_layer_list(name).work_graph()


def _platform(name: str) -> Platform:
    # The parameter of `problem` hides the function of that name.
    return platform(name)


if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Entry": "ZooEntry"}, gone_in="0.2")
