"""One run of profiling: what is known is looked up, the rest compiled and measured.

Devices of equal targets share what is compiled. On each of them, phases follow each other
(`tvm_hetero.cost_models.kernels_alone.device_run`):

    rules      every kernel by its rule, in rounds (`tvm_hetero.cost_models.kernels_alone.sampling`)
    contests   kernels that can be computed in other ways too, each against its rule; on a device
               that is no CPU, every kernel against what a CPU computes
    rescue     kernels whose rule gave no time, as the default loop nest
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tvm_hetero.cost_models.kernels_alone.bench import WORKER
from tvm_hetero.cost_models.kernels_alone.device_run import DeviceRun
from tvm_hetero.cost_models.kernels_alone.target_jobs import TargetJobs
from tvm_hetero.platform.devices import Device, is_local_cpu
from tvm_hetero.platform.host import cores_at_once
from tvm_hetero.processes.child_process import Worker
from tvm_hetero.util.code_folder import code_folder
from tvm_hetero.util.leftovers import temporary_folder

# Children that help to compile; each takes half a second to start, and 200 MB.
_MOST_HELPERS = 4


def measure_target(target: TargetJobs, devices: Sequence[Device]) -> None:
    """Find what is known, compile the rest in one go, run it device by device."""
    runs = [DeviceRun(target, device) for device in devices]
    wanted = {c.key: c.func for run in runs for c in run.wanted()}
    twins = {c.key: c.func for run in runs for c in run.twins()}
    with temporary_folder("tvm-hetero-", code_folder()) as folder:
        host_only = all(is_local_cpu(device) for device in devices)
        with _workers(bool(wanted), host_only) as workers:
            compiled = target.compile(wanted, folder, workers)
            on_host = target.compile(twins, folder, workers, target.host)
            # One of those that helped to compile runs the kernels: it has loaded TVM.
            for run in runs:
                run.measure(compiled, on_host, workers.pop() if workers else None, folder)
        for run in runs:
            run.rescue(folder)
            run.choose()


@contextmanager
def _workers(needed: bool, host_only: bool) -> Iterator[list[Worker]]:
    """Children to compile and measure; one for each core but ours, and one at least."""
    count = min(max(1, cores_at_once() - 1), _MOST_HELPERS) if needed else 0
    workers = [Worker(WORKER, host_only=host_only) for _ in range(count)]
    started = list(workers)
    try:
        yield workers
    finally:
        for worker in started:
            worker.close()
