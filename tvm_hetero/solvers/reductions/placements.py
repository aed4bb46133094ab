"""Forms whose answers come back as placements, each a few lines over the functions that make them.

=================  =====================================  =======================================
form               answer                                 how it comes back
=================  =====================================  =======================================
`TaskLines`        a device for every atom                `TaskLine.placed`
`AtomCounts`       how many of each kind a device takes   `cpsat_counts.realise`, then as above
`TaskClasses`      shares of classes by kind of device    `class_rounding.share_plan`
`Stages`           a chain of ideals                      `stage_dp.placement_of`
`ModuleColumns`    one column of every module             `ColumnChain.placement`
`Modules`          a solution of every module             `join.join_modules`
`Ranges`           a row of ranges for every task         `StreamSearch.divided`
=================  =====================================  =======================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tvm_hetero.bounds.throughput.module_columns import ColumnChain, listable, throughput_chain
from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.batches.range_search import Streams, StreamSearch
from tvm_hetero.solvers.counting.cpsat_counts import CountKinds, kinds_of, realise
from tvm_hetero.solvers.lists.partial_schedule import Solution
from tvm_hetero.solvers.milp_split.join import join_modules
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals, stage_bound
from tvm_hetero.solvers.stage_dp.stage_dp import StageChain, placement_of, run
from tvm_hetero.solvers.throughput.class_rounding import share_plan
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.ideals import IdealFamily
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.machine_counts import NodeType, TaskLine, machines_of
from tvm_hetero.views.modularity import Module, Piece, cut_is_exact, modules_of
from tvm_hetero.views.reduction import Keeps, Placed
from tvm_hetero.views.task_classes import ClassShares, shares_of


class LineOnMachines(NamedTuple):
    """A line of atoms, the types of nodes that may run it, and the kinds of its atoms."""

    line: TaskLine
    machines: tuple[NodeType, ...]
    kinds: CountKinds


@dataclass(frozen=True)
class TaskLines:
    """The tasks in a row of atoms, devices by types of nodes (`count-dp`)."""

    name: str = "line of atoms"
    keeps: Keeps = "guide"

    def refusal(self, instance: Instance) -> str:
        """Only latency and throughput."""
        return _not_of(instance, "latency", "throughput") or _divided(instance)

    def apply(self, instance: Instance) -> LineOnMachines:
        """The line, the types of nodes, and the kinds of atoms."""
        line, machines = TaskLine(instance), machines_of(instance)
        return LineOnMachines(line, machines, kinds_of(line, machines))

    def size(self, form: LineOnMachines) -> str:
        """Atoms, and classes of devices."""
        classes = sum(len(machine.counts) for machine in form.machines)
        return f"{count_noun(len(form.line), 'atom')} x {count_noun(classes, 'class', 'classes')}"

    def invert(self, form: LineOnMachines, answer: Sequence[int]) -> Placed:
        """From a device for every atom."""
        return _whole(form.line.instance, form.line.placed(answer))


@dataclass(frozen=True)
class AtomCounts:
    """Of each kind of atoms, how many every device takes (`count-dp`)."""

    name: str = "counts of atoms"
    keeps: Keeps = "guide"

    def refusal(self, instance: Instance) -> str:
        """As of a line, and stages are not counted."""
        staged = instance.problem.objective.contiguous
        return "counts do not keep stages together" if staged else TaskLines().refusal(instance)

    def apply(self, instance: Instance) -> LineOnMachines:
        """The same form as a line's.

        Raises
        ------
        SolverError
            If some atom runs nowhere as a whole.
        """
        form = TaskLines().apply(instance)
        if not all(form.kinds.seconds):
            raise SolverError("what a color holds together in one atom, no device can run")
        return form

    def size(self, form: LineOnMachines) -> str:
        """Kinds of atoms, and devices."""
        devices = {d for row in form.kinds.seconds for d in row}
        return (
            f"{count_noun(len(form.kinds.counts), 'kind')} x {count_noun(len(devices), 'device')}"
        )

    def invert(self, form: LineOnMachines, answer: Mapping[tuple[int, int], int]) -> Placed:
        """From the numbers a(device, kind), for every device that can run the kind."""
        return TaskLines().invert(form, realise(form.line, form.kinds, dict(answer)))


@dataclass(frozen=True)
class SharesOfInstance:
    """The program over classes and kinds, solved, and whose it is."""

    instance: Instance
    program: ClassShares


@dataclass(frozen=True)
class TaskClasses:
    """Classes of equal groups on kinds of equal devices; rounding gives a placement."""

    name: str = "classes of tasks"
    keeps: Keeps = "bound"

    def refusal(self, instance: Instance) -> str:
        """Only throughput."""
        return _not_of(instance, "throughput") or _divided(instance)

    def apply(self, instance: Instance) -> SharesOfInstance:
        """The classes, and the linear program's answer."""
        return SharesOfInstance(instance, shares_of(instance, rates(instance)))

    def size(self, form: SharesOfInstance) -> str:
        """Classes, and kinds of devices."""
        classes, kinds = form.program.work.shape
        return f"{count_noun(classes, 'class', 'classes')} x {count_noun(kinds, 'kind')}"

    def invert(self, form: SharesOfInstance, answer: FloatArray) -> Placed:
        """From (classes, kinds), how many groups go where.

        Raises
        ------
        SolverError
            If there are no shares: the program was too big.
        """
        placement = share_plan(form.instance, replace(form.program, shares=answer))
        if placement is None:
            raise SolverError("there are no shares of classes: the program was too big")
        return _whole(form.instance, placement)

    def bound(self, instance: Instance) -> float:
        """The least load of the busiest device, copies left out, s."""
        return self.apply(instance).program.value


@dataclass(frozen=True)
class Stages:
    """Contiguous stages as chains of ideals (`ideals-dp`)."""

    name: str = "stages of ideals"
    keeps: Keeps = "bound"

    def refusal(self, instance: Instance) -> str:
        """Only throughput."""
        return _not_of(instance, "throughput") or _divided(instance)

    def apply(self, instance: Instance) -> IdealFamily:
        """All ideals of the graph.

        Raises
        ------
        SolverError
            If there are too many.
        """
        return all_ideals(instance)

    def size(self, form: IdealFamily) -> str:
        """Ideals, and kinds of devices."""
        return f"{count_noun(len(form), 'ideal')} x {count_noun(len(form.kinds), 'kind')}"

    def invert(self, form: IdealFamily, answer: StageChain) -> Placed:
        """From the stages of a chain."""
        return _whole(form.instance, placement_of(form, answer))

    def bound(self, instance: Instance) -> float:
        """The value of the best chain, where the objective has stages and one element, s."""
        family = self.apply(instance)
        return stage_bound(instance.problem, family, run(family))


@dataclass(frozen=True)
class ModuleColumns:
    """Each module by its columns: placements that no other beats (`milp-split`, throughput)."""

    name: str = "columns of modules"
    keeps: Keeps = "exact"

    def refusal(self, instance: Instance) -> str:
        """Only throughput, out of line, where each module's placements can be listed."""
        if instance.problem.objective.contiguous:
            return "columns of modules do not know stages"
        few = _not_of(instance, "throughput") or _divided(instance)
        return few or ("" if listable(instance) else "a module has too many placements")

    def apply(self, instance: Instance) -> ColumnChain:
        """The chain of modules.

        Raises
        ------
        SolverError
            If the modules have too many placements together.
        """
        chain = throughput_chain(instance)
        if chain is None:
            raise SolverError("the modules have too many placements together")
        return chain

    def size(self, form: ColumnChain) -> str:
        """Modules, and columns of the different ones."""
        columns = sum(len(table) for table in form.distinct)
        return f"{count_noun(len(form.tables), 'module')}, {count_noun(columns, 'column')}"

    def invert(self, form: ColumnChain, answer: Sequence[int]) -> Placed:
        """From one row of every module's table; rows in a row meet on one device."""
        return _whole(form.instance, form.placement(answer))


class CutInstance(NamedTuple):
    """An instance and its modules, each as a piece."""

    instance: Instance
    modules: tuple[tuple[Module, Piece], ...]


@dataclass(frozen=True)
class Modules:
    """Modules between articulations, solved one by one (`milp-split`, latency)."""

    name: str = "modules"
    keeps: Keeps = "exact"

    def refusal(self, instance: Instance) -> str:
        """Only latency, where cutting loses nothing."""
        if instance.problem.objective.kind == "latency" and not cut_is_exact(instance):
            return "memory or missing links reach across the cuts"
        return _not_of(instance, "latency")

    def apply(self, instance: Instance) -> CutInstance:
        """The modules as pieces."""
        modules = modules_of(instance)
        return CutInstance(instance, tuple((m, Piece(instance, m.parts)) for m in modules))

    def size(self, form: CutInstance) -> str:
        """Modules, and parts of the largest."""
        most = max(len(piece) for _, piece in form.modules)
        return f"{count_noun(len(form.modules), 'module')}, {count_noun(most, 'part')} at most"

    def invert(self, form: CutInstance, answer: Sequence[Solution]) -> Placed:
        """From a solution of every piece; in a row they end and begin on one device."""
        steps = [(m, p.parts, s) for (m, p), s in zip(form.modules, answer, strict=True)]
        placement, spans, _ = join_modules(form.instance, steps)
        rank = {v: i for i, v in enumerate(form.instance.order)}
        order = sorted(rank, key=lambda v: (*spans[v], rank[v]))
        return Placed(form.instance, placement, tuple(order))


@dataclass(frozen=True)
class Ranges:
    """Every task a row of ranges of the batch (`batches`)."""

    name: str = "ranges of the batch"
    keeps: Keeps = "guide"

    def refusal(self, instance: Instance) -> str:
        """All but throughput."""
        return _but(instance, "throughput") or _divided(instance)

    def apply(self, instance: Instance) -> StreamSearch:
        """Tables of all sizes of executions.

        Raises
        ------
        SolverError
            If they would be too large.
        """
        return StreamSearch(instance)

    def size(self, form: StreamSearch) -> str:
        """Tasks, devices, and sizes of executions."""
        return " x ".join(
            [
                count_noun(len(form), "task"),
                count_noun(len(form.instance.names), "device"),
                count_noun(form.batch, "size"),
            ]
        )

    def invert(self, form: StreamSearch, answer: Streams) -> Placed:
        """From counts and devices of streams; the instance is then a divided one.

        Raises
        ------
        SolverError
            If the streams tear apart what one color holds together.
        """
        instance, placement, order = form.divided(answer)
        for group in instance.groups:
            if len({placement[v] for v in group}) > 1:
                raise SolverError(
                    "the streams put tasks of one color on several devices: "
                    f"{sorted({instance.tasks[v] for v in group})!r:.80}"
                )
        return Placed(instance, placement, tuple(order))


def _whole(instance: Instance, placement: list[int]) -> Placed:
    return Placed(instance, placement, instance.order)


def _not_of(instance: Instance, *kinds: str) -> str:
    """A refusal of all other kinds of objectives."""
    kind = instance.problem.objective.kind
    return "" if kind in kinds else f"serves {' and '.join(kinds)}, not {kind}"


def _but(instance: Instance, kind: str) -> str:
    """A refusal of one kind of objective."""
    return f"does not serve {kind}" if instance.problem.objective.kind == kind else ""


def _divided(instance: Instance) -> str:
    return "the batch is divided already" if instance.divided else ""
