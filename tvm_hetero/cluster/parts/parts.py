"""A placed model cut by node: ordinary modules, each with a problem and schedule of its own.

A *lane* is the elements of the batch that go the same way: each task computes all of them on one
node. Mostly there is one lane. Where a plan gives nodes shares of the batch there are several, and
nothing passes between them, since elements of a batch know nothing of each other.

A *part* is tasks of one node that run without asking anybody (`tvm_hetero.cluster.parts.levels`),
for the elements of a lane. It is an ordinary model: its inputs are inputs of the whole or tensors
of other parts, its states those of its tasks, which never leave the node. Problem and schedule are
the whole's, restricted to the node's devices and the lane's elements, and timed again; so a part is
annotated, built, saved and run by what does that for any model.

Analysis (`cut_by_node`) is here, writing modules in `tvm_hetero.cluster.parts.part_module`,
problems and schedules in `tvm_hetero.cluster.parts.part_plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm

from tvm_hetero.cluster.parts.levels import assign_levels
from tvm_hetero.cluster.parts.part_module import Cut, part_module
from tvm_hetero.cluster.parts.part_plan import Share, part_problem, part_schedule, sub_platform
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.passes.annotate_devices import strip_devices
from tvm_hetero.passes.attributes import OUTPUT_NAMES
from tvm_hetero.passes.lengths import counted_results
from tvm_hetero.passes.lowered_main import (
    LoweredMain,
    TensorSource,
    names_of,
    read_main,
    static_shape,
)
from tvm_hetero.passes.placed_model import is_annotated, problem_and_schedule
from tvm_hetero.passes.states import states_of
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule


@dataclass(frozen=True)
class PartSource:
    """Where a tensor comes from: output `index` of a part of the lane, or (`part` is None) input
    `index` of the model.
    """

    part: int | None
    index: int


@dataclass(frozen=True)
class Part:
    """What a node computes without asking anybody.

    Attributes
    ----------
    name : unique within the plan.
    module : lowered, not placed; problem, schedule : on the node's devices alone.
    inputs : the names of its inputs but for the states, and where each comes from.
    states : names of the states that it keeps, as the whole model calls them.
    outputs : how many tensors it makes for others.
    """

    name: str
    node: str
    module: tvm.IRModule
    problem: Problem
    schedule: Schedule
    inputs: tuple[tuple[str, PartSource], ...]
    states: tuple[str, ...]
    outputs: int


@dataclass(frozen=True)
class Lane:
    """Elements of the batch that go the same way.

    Attributes
    ----------
    parts : each after those that it reads.
    results : where each output of the model comes from.
    """

    elements: tuple[int, ...]
    parts: tuple[Part, ...]
    results: tuple[PartSource, ...]


@dataclass(frozen=True)
class PartTensorType:
    """An input or output of one element: name, shape, type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Parts:
    """A model cut by node. `inputs` are those that a request brings: states are left out."""

    batch: int
    inputs: tuple[PartTensorType, ...]
    outputs: tuple[PartTensorType, ...]
    lanes: tuple[Lane, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that compute something, in order of first use."""
        return tuple(dict.fromkeys(part.node for lane in self.lanes for part in lane.parts))


def cut_by_node(
    mod: tvm.IRModule, problem: Problem | None = None, schedule: Schedule | None = None
) -> Parts:
    """Cut a model into the parts of its nodes.

    Parameters
    ----------
    mod : an annotated module, or a lowered one with its problem and schedule.

    Raises
    ------
    UsageError
        If problem or schedule are missing, or not this module's.
    ModelError
        If an output of the model is a constant.
    """
    if is_annotated(mod):
        own_problem, own_schedule = problem_and_schedule(mod)
        problem, schedule = problem or own_problem, schedule or own_schedule
        mod = strip_devices(mod)
    if problem is None or schedule is None:
        raise UsageError("the module is not placed; give its problem and schedule too")
    main = read_main(mod)
    if counted_results(main.function):
        raise UsageError(
            "the size of an output depends on data, which machines of a cluster do not tell each "
            "other; run the model on one machine"
        )
    nodes = _nodes(main, problem, schedule)
    states = states_of(main)
    given = [i for i in range(len(main.params)) if i not in states]
    inputs = tuple(
        PartTensorType(main.inputs[i], static_shape(p.ty, main.inputs[i]), str(p.ty.dtype))
        for i, p in enumerate(main.params)
        if i in given
    )
    results = main.results()
    outputs = tuple(
        PartTensorType(name, static_shape(value.ty, name), str(value.ty.dtype))
        for name, value in zip(
            names_of(mod, OUTPUT_NAMES, len(results), "output"), results, strict=True
        )
    )
    lanes: list[Lane] = []
    for way, elements in _ways(main, nodes, problem.batch).items():
        name = "" if not lanes else f"lane{len(lanes)}."
        lanes.append(_LaneBuilder(mod, main, problem, schedule, way, elements, name, given).cut())
    return Parts(problem.batch, inputs, outputs, tuple(lanes))


def _nodes(main: LoweredMain, problem: Problem, schedule: Schedule) -> dict[tuple[str, int], str]:
    """The node of each task and element."""
    if schedule.problem != problem.digest:
        raise UsageError("the schedule is of another problem; solve the one that is given")
    nodes = {
        (execution.task, element): problem.platform.device(execution.device).node
        for execution in schedule.executions
        for element in execution.elements
    }
    for task in main.task_ids:
        for element in range(problem.batch):
            if (task, element) not in nodes:
                raise UsageError(
                    f"the schedule says nothing of element {element} of task {task!r}; give the "
                    "schedule that was made for this module"
                )
    return nodes


def _ways(
    main: LoweredMain, nodes: Mapping[tuple[str, int], str], batch: int
) -> dict[tuple[str, ...], tuple[int, ...]]:
    """The elements that go each way: a node for each task."""
    ways: dict[tuple[str, ...], tuple[int, ...]] = {}
    for element in range(batch):
        way = tuple(nodes[task, element] for task in main.task_ids)
        ways[way] = (*ways.get(way, ()), element)
    return ways


@dataclass(frozen=True)
class _LaneBuilder:
    """Cuts one lane: analysis first, then a `Part` for each (level, node) in order."""

    mod: tvm.IRModule
    main: LoweredMain
    problem: Problem
    schedule: Schedule
    way: Sequence[str]
    elements: tuple[int, ...]
    name: str
    given: Sequence[int]

    def cut(self) -> Lane:
        cuts = self._cuts()
        place = {root: PartSource(n, k) for n, cut in enumerate(cuts) for k, root in cut.made()}
        place |= {TensorSource(None, i): PartSource(None, k) for k, i in enumerate(self.given)}
        results = []
        for k, root in enumerate(self._result_roots()):
            of_part = [
                PartSource(n, len(cut.outs) + cut.results.index(k))
                for n, cut in enumerate(cuts)
                if k in cut.results
            ]
            results.append(of_part[0] if of_part else place[root])
        parts = tuple(self._part(n, cut, place) for n, cut in enumerate(cuts))
        return Lane(self.elements, parts, tuple(results))

    def _part(self, number: int, cut: Cut, place: Mapping[TensorSource, PartSource]) -> Part:
        module, inputs = part_module(self.mod, self.main, cut)
        share = Share(
            sub_platform(self.problem.platform, cut.node),
            self.elements,
            tuple(self.main.task_ids[i] for i in cut.calls),
        )
        problem = part_problem(module, self.problem, share)
        names = self.main.inputs
        return Part(
            name=f"{self.name}part{number}",
            node=cut.node,
            module=module,
            problem=problem,
            schedule=part_schedule(problem, self.schedule, share),
            inputs=tuple((name, place[root]) for name, root in zip(inputs, cut.ins, strict=True)),
            states=tuple(names[i] for i in cut.states),
            outputs=len(cut.outs) + len(cut.results),
        )

    def _result_roots(self) -> list[TensorSource]:
        roots = []
        for number, expr in enumerate(self.main.results()):
            root = self.main.root(expr)
            if root is None:
                raise ModelError(
                    f"output {number} of the model is a constant; leave it out of the outputs"
                )
            roots.append(root)
        return roots

    def _cuts(self) -> list[Cut]:
        """Which calls, tensors and states each part has; parts in order of their levels."""
        main, ids = self.main, self.main.task_ids
        reads = {
            ids[call.position]: [ids[r.call] for r in main.reads(call) if r.call is not None]
            for call in main.calls
        }
        level = assign_levels(ids, reads, dict(zip(ids, self.way, strict=True)))
        calls: dict[tuple[int, str], list[int]] = {}
        for position, task in enumerate(ids):
            calls.setdefault((level[task], self.way[position]), []).append(position)
        part_of = {p: key for key, positions in calls.items() for p in positions}
        wanted: dict[tuple[int, str], dict[TensorSource, None]] = {key: {} for key in calls}
        for call in main.calls:
            for root in main.reads(call):
                if root.call is not None and part_of[root.call] != part_of[call.position]:
                    wanted[part_of[root.call]][root] = None
        results: dict[tuple[int, str], list[int]] = {key: [] for key in calls}
        for k, root in enumerate(self._result_roots()):
            if root.call is not None:
                results[part_of[root.call]].append(k)
        states = set(states_of(main))
        cuts = []
        for key in sorted(calls):
            inside = set(calls[key])
            roots = dict.fromkeys(r for p in calls[key] for r in main.reads(main.calls[p]))
            ins = [r for r in roots if r.call not in inside]
            cuts.append(
                Cut(
                    node=key[1],
                    devices=sub_platform(self.problem.platform, key[1]).names,
                    calls=tuple(calls[key]),
                    ins=tuple(r for r in ins if r.call is not None or r.index not in states),
                    states=tuple(r.index for r in ins if r.call is None and r.index in states),
                    outs=tuple(wanted[key]),
                    results=tuple(results[key]),
                )
            )
        return cuts
