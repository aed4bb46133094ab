"""Forms from which no placement comes back: they prove a bound, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.bounds import critical_path_bound, load_bound
from tvm_hetero.bounds.throughput.patterns import pattern_bound
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.views.arrays import Figures, figures_of
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.item_types import PatternInstance, pattern_instance_of, unit_flow
from tvm_hetero.views.reduction import Keeps


@dataclass(frozen=True)
class Arrays:
    """Least times of every task and copy: what the latency bounds are made of."""

    name: str = "arrays of least times"
    keeps: Keeps = "bound"

    def refusal(self, instance: Instance) -> str:
        """None; but what it proves here is a latency."""
        kind = instance.problem.objective.kind
        return "" if kind == "latency" else f"bounds latency, not {kind}"

    def apply(self, instance: Instance) -> Figures:
        """The arrays."""
        return figures_of(instance)

    def size(self, form: Figures) -> str:
        """Tasks, devices and edges."""
        tasks, devices = form.least.shape
        edges = count_noun(len(form.src), "edge")
        return f"{count_noun(tasks, 'task')} x {count_noun(devices, 'device')}, {edges}"

    def bound(self, instance: Instance) -> float:
        """The critical path with copies, or the least load of the busiest device, s."""
        return max(critical_path_bound(instance), load_bound(instance))


@dataclass(frozen=True)
class ItemTypes:
    """Kinds of items and types of devices: what whole tasks fit into memories."""

    name: str = "types of items"
    keeps: Keeps = "bound"

    def refusal(self, instance: Instance) -> str:
        """Latency and throughput of one element, where memory binds."""
        kind = instance.problem.objective.kind
        if kind not in ("latency", "throughput"):
            return f"serves latency and throughput, not {kind}"
        if instance.problem.batch > 1:
            return "speaks for one element, not for a batch"
        return "" if any(instance.memory_binds) else "no memory binds"

    def apply(self, instance: Instance) -> PatternInstance:
        """Items by what they weigh and cost (for latency times the flow through them)."""
        latency = instance.problem.objective.kind == "latency"
        flow = unit_flow(instance) if latency else [1.0] * len(instance)
        return pattern_instance_of(instance, flow)

    def size(self, form: PatternInstance) -> str:
        """Kinds of items, and types of devices."""
        kinds, types = count_noun(len(form.counts), "kind"), count_noun(len(form.devices), "type")
        return f"{kinds} x {types}"

    def bound(self, instance: Instance) -> float:
        """The bound by patterns, s."""
        return pattern_bound(instance)
