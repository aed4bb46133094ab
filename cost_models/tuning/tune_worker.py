"""The child process of a tuning: ``python -m tvm_hetero.cost_models.tuning.tune_worker``.

It is `tvm_hetero.cost_models.kernels_alone.profile_worker` with two more questions: ``kernel``
takes an unscheduled function and compiles it as its rule says, ``try`` applies traces to it,
compiles the results and runs them in turns with the rule's, those that compute the same. A
candidate may crash this process or keep LLVM busy for minutes; the parent ends it and starts
another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_hetero.cost_models.kernels_alone import profile_worker
from tvm_hetero.cost_models.kernels_alone.profile_worker import KernelRun
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.processes.child_server import serve

_RULE = "rule"


@dataclass
class TuningSession(profile_worker.ProfileSession):
    """What ``open`` and ``kernel`` have set up."""

    func: Any = None
    target: Any = None
    rule: Any = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of the parent."""
        match question["ask"]:
            case "kernel":
                self.take(question["func"], question["target"])
                return {"ok": True}
            case "try":
                return self.attempt(question)
        return super().answer(question)

    def take(self, func: str, target: str) -> None:
        """The kernel that all further questions are about, and its measure."""
        import tvm

        from tvm_hetero.kernels import schedule_kernel

        self.func, self.target = tvm.ir.load_json(func), tvm.ir.load_json(target)
        self.rule = _build({_RULE: schedule_kernel(self.func, self.target)}, self.target)

    def attempt(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Compile what the traces make of the kernel and run it in turns with the rule's."""
        from tvm_hetero.kernels.tuning.trace import apply_trace

        scheduled = {
            f"candidate_{i}": apply_trace(self.func, trace, self.target)
            for i, trace in enumerate(question["traces"])
        }
        self.modules = [self.rule, _build(scheduled, self.target)]
        effort = SamplingPolicy(**question["effort"])
        return self.compare(
            [
                KernelRun(name, question["parameters"], question["cold"], effort)
                for name in (_RULE, *scheduled)
            ]
        )


def _build(funcs: Mapping[str, Any], target: Any) -> Any:
    import tvm

    from tvm_hetero.kernels.cpu.compilation import build

    module = tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in funcs.items()})
    return tvm.runtime.Executable(build(module, target)).jit()


if __name__ == "__main__":
    serve(TuningSession().answer)
