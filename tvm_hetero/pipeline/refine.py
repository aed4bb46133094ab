"""Estimated costs, replaced by what the network's own runs take; and the plan made again.

An artifact of estimated costs (`tvm_hetero.cost_models.quick`) runs at once. Later the whole
network is run on each device, alone and with all others at it, and each kernel is timed there by
the executor (`tvm_hetero.cost_models.in_network.costs`); its libraries are in the cache, so next to
nothing is compiled. Links that were assumed are measured too. Then the problem with these costs is
solved.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.module_text import module_from_text
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.quick import without_assumed
from tvm_hetero.cost_models.store.traces import with_stored_traces
from tvm_hetero.errors import UsageError
from tvm_hetero.passes.annotate_devices import place_tasks
from tvm_hetero.passes.attributes import ESTIMATED
from tvm_hetero.passes.branch_probabilities import expected_costs
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.pipeline.options import MEASURED_GAP, SECONDS
from tvm_hetero.pipeline.partition import Partition
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers


def refine(
    executable: Executable,
    time_limit: float = SECONDS,
    seed: int = 0,
    progress: Progress | None = None,
    costs: ProfiledCosts | None = None,
) -> Partition:
    """Measure an artifact of estimated costs in place, and make its plan again.

    Parameters
    ----------
    executable : of estimated costs; only such keep their module.
    time_limit, seed : for the solver.
    progress : told while the network is measured, and of solving as it begins (of 0 parts).
    costs : what measures it; by default with the user's store.

    Raises
    ------
    UsageError
        If its costs are no estimates.
    """
    if executable.estimated is None or executable.module is None:
        raise UsageError(
            "the artifact's costs are no estimates, so there is nothing to refine; "
            "'tvm-hetero partition --quick' makes artifacts of estimated costs"
        )
    began = time.perf_counter()
    measuring = ProfiledCosts() if costs is None else costs
    module = module_from_text(executable.module, executable.weights)
    module = with_stored_traces(module.without_attr(ESTIMATED), executable.problem)
    platform = measuring.with_links(without_assumed(executable.problem.platform))
    problem = replace(executable.problem, platform=platform)
    problem = expected_costs(module, measuring.refine(module, problem, progress))
    measured = time.perf_counter()
    if progress is not None:
        progress("solve", 0, 0)
    options = Options(time_limit=time_limit, seed=seed, gap=MEASURED_GAP)
    schedule = prefer_fewer_transfers(problem, solve(problem, "auto", options))
    solved = time.perf_counter()
    placed = place_tasks(module, problem, schedule)
    seconds = {
        "measure in place": measured - began,
        "solve": solved - measured,
        "annotate": time.perf_counter() - solved,
    }
    return Partition(placed, len(extract_tasks(module).kernels), seconds)
