"""The parent's end of a tuning: one kernel on one device, and candidates tried against its rule.

A candidate that crashes or hangs takes the child process with it; the next one gets a new child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from tvm_hetero.cost_models.kernels_alone.bench import NotMeasured, parameters, timing_of
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.store.identity import worker_cores
from tvm_hetero.devices.target import device_target, dl_device
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device, is_local_cpu
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import Timing
from tvm_hetero.processes.child_process import Worker, WorkerLost

if TYPE_CHECKING:
    from tvm.target import Target

_WORKER = "tvm_hetero.cost_models.tuning.tune_worker"
# Importing TVM takes a second, compiling a large kernel several; on a busy machine many.
_OPEN_SECONDS = 120.0


class TuneBench:
    """One kernel, ready to be tried with other schedules."""

    def __init__(
        self, platform: Platform, device: Device, kernel: Kernel, limit: float = 30.0
    ) -> None:
        """`limit`: seconds for building, checking and running one lot of candidates."""
        self.target: Target = device_target(device)
        self._limit = limit
        self._kernel = kernel
        self._open = {
            "ask": "open",
            "libraries": [],
            "cores": list(worker_cores(device)),
            "device": list(dl_device(platform, device)),
        }
        self._host_only = is_local_cpu(device)
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def compare(self, traces: Sequence[str], effort: SamplingPolicy) -> list[Timing | str]:
        """Run the rule's schedule and each trace's in turns.

        Returns
        -------
        The time of the rule's schedule; then for each trace its time, or why it is refused: it
        computes something else.

        Raises
        ------
        NotMeasured
            If one of them cannot be built, crashes or hangs; or the rule's does.
        """
        answer = self._ask(
            {
                "ask": "try",
                "traces": list(traces),
                "parameters": parameters(self._kernel.func),
                "cold": list(self._kernel.constants),
                "effort": asdict(effort),
            }
        )
        pairs = zip(answer["times"], answer["wrong"], strict=True)
        return [timing_of(times) if wrong is None else str(wrong) for times, wrong in pairs]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._ready().ask(question, self._limit)
        except WorkerLost as lost:
            self._drop()
            raise NotMeasured(str(lost)) from None
        except BaseException:
            self._drop()  # interrupted: the child is still running the kernel
            raise
        if "error" in answer:
            raise NotMeasured(str(answer["error"]))
        return answer

    def _ready(self) -> Worker:
        if self._worker is not None:
            return self._worker
        import tvm

        self._worker = Worker(_WORKER, host_only=self._host_only)
        kernel = {
            "ask": "kernel",
            "func": tvm.ir.save_json(self._kernel.func),
            "target": tvm.ir.save_json(self.target),
        }
        for question in (self._open, kernel):
            answer = self._worker.ask(question, _OPEN_SECONDS)
            if "error" in answer:
                self._drop()
                raise NotMeasured(f"the rule's own schedule does not run: {answer['error']}")
        return self._worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
