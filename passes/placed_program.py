"""Where and in which order a schedule has everything done, in terms of a lowered function.

The analysis half of `tvm_hetero.passes.annotate_devices`: nothing is written here.

A schedule's executions hold one or several elements of the batch. A plan runs them one by one,
each on the device of its execution, and a reader on another device may begin with the first of
them before the last is through. In which order a device takes them is a matter of its own:
`tvm_hetero.passes.element_order`. Where the cost of the task is that of kernels for several
elements at once (`Cost.sizes`), the execution is the calls of those.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.passes.element_order import Portion, stretches
from tvm_hetero.passes.io_tasks import host_device, input_task, output_task
from tvm_hetero.passes.lowered_main import LoweredMain, Root, original_position
from tvm_hetero.passes.states import state_readers
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Execution, Schedule


@dataclass(frozen=True)
class PlacedRun:
    """The call at position `call` of ``main``, for one element or several at once."""

    call: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class TensorMove:
    """One element of a root is copied to a device (its position in the platform)."""

    root: Root
    device: int
    element: int


Item = PlacedRun | TensorMove
# Time; copies after calls; call; element; place within a stretch.
Key = tuple[float, int, int, int, int]


@dataclass(frozen=True)
class ProgramLayout:
    """Where everything goes, with devices as positions in the platform.

    Attributes
    ----------
    batch : elements.
    items : calls and copies, in order.
    device_of : device of each call (its position in ``main``) and element.
    input_home, output_home : for each element the device of each input and of each result
        (None: where it is made).
    source : where a copy comes from.
    """

    batch: int
    items: tuple[Item, ...]
    device_of: Mapping[tuple[int, int], int]
    input_home: tuple[tuple[int, ...], ...]
    output_home: tuple[tuple[int | None, ...], ...]
    source: Mapping[TensorMove, int]

    def home(self, root: Root, element: int) -> int:
        """The device where a root is made, or arrives."""
        if root.call is None:
            return self.input_home[element][root.index]
        return self.device_of[root.call, element]


def plan_layout(main: LoweredMain, problem: Problem, schedule: Schedule) -> ProgramLayout:
    """Read places, order and copies out of a schedule (analysis; nothing is written).

    Raises
    ------
    UsageError
        If the schedule is not of this function and problem.
    """
    index, batch = problem.platform.index, range(problem.batch)
    places = _places(problem, schedule)
    missing = [t for t in main.task_ids if any((t, element) not in places for element in batch)]
    if missing or schedule.problem != problem.digest:
        raise UsageError(
            f"the schedule is not of this module and problem (task {(missing or ['?'])[0]!r}); "
            "solve the problem that make_problem gave for this module"
        )
    moves = _moves(main, problem, schedule)
    keepers = state_readers(main)
    host = (index[host_device(problem.platform)], 0.0)
    inputs, results = range(len(main.params)), range(len(main.results()))
    layout = ProgramLayout(
        batch=problem.batch,
        items=(),
        device_of={
            (call, element): places[task, element][0]
            for element in batch
            for call, task in enumerate(main.task_ids)
        },
        input_home=tuple(
            tuple(
                places[main.task_ids[keepers[i]], element][0]
                if i in keepers
                else places.get((input_task(i), element), host)[0]
                for i in inputs
            )
            for element in batch
        ),
        output_home=tuple(
            tuple(places.get((output_task(i), element), (None,))[0] for i in results)
            for element in batch
        ),
        source={move: near for move, (near, _) in moves.items()},
    )
    used = _used(main, layout)
    moves = {move: moves[move] for move in moves if move in used}
    turns = _turns(main, problem, schedule)
    return replace(layout, items=_in_order(main, turns, moves))


def _places(problem: Problem, schedule: Schedule) -> dict[tuple[str, int], tuple[int, float]]:
    """For each task and element the device that it is on, and the start of its execution."""
    places: dict[tuple[str, int], tuple[int, float]] = {}
    for execution in schedule.executions:
        place = (problem.platform.index[execution.device], execution.start)
        for element in execution.elements:
            if places.setdefault((execution.task, element), place) != place:
                raise UsageError(
                    f"the schedule runs element {element} of task {execution.task!r} twice; check "
                    "it with check_schedule"
                )
    return places


def _moves(
    main: LoweredMain, problem: Problem, schedule: Schedule
) -> dict[TensorMove, tuple[int, float]]:
    """Every copy, element by element: where it comes from, and its start."""
    index = problem.platform.index
    names = {
        main.tensor_name(root): root
        for call in main.calls
        for root in (Root(call.position, k) for k in range(len(call.outputs)))
    }
    names |= {input_task(i): Root(None, i) for i in range(len(main.params))}
    return {
        TensorMove(names[copy.tensor], index[copy.dst], element): (index[copy.src], copy.start)
        for copy in schedule.copies
        for element in copy.elements
    }


def _used(main: LoweredMain, layout: ProgramLayout) -> set[TensorMove]:
    """The copies that somebody needs: a schedule copies all elements of an execution at once,
    though some of them may not be wanted where the others are.
    """
    reads = [main.reads(call) for call in main.calls]
    wanted = [
        TensorMove(root, device, element)
        for (call, element), device in layout.device_of.items()
        for root in reads[call]
    ]
    for number, result in enumerate(main.results()):
        root = main.root(result)
        for element, homes in enumerate(layout.output_home):
            home = homes[number]
            if root is not None and home is not None:
                wanted.append(TensorMove(root, home, element))
    used: set[TensorMove] = set()
    while wanted:
        move = wanted.pop()
        if move in layout.source and move not in used:
            used.add(move)
            wanted.append(replace(move, device=layout.source[move]))
    return used


def _turns(main: LoweredMain, problem: Problem, schedule: Schedule) -> dict[PlacedRun, Key]:
    """By what calls are put in order: those of a stretch begin with it, element by element."""
    call_of = {task: call for call, task in enumerate(main.task_ids)}
    index = problem.platform.index
    portions = [
        Portion(call_of[e.task], index[e.device], e.elements, e.start, _calls(problem, e))
        for e in schedule.executions
        if e.task in call_of
    ]
    busy: dict[int, list[float]] = {}
    for copy in schedule.copies:
        for end in (copy.src, copy.dst):
            if not problem.platform.device(end).overlap:
                busy.setdefault(index[end], []).append(copy.start)
    steady = schedule.kind == "throughput"
    turns: dict[PlacedRun, Key] = {}
    for stretch in stretches(main, portions, busy, steady=steady):
        first = stretch[0]
        begin = float(first.call) if steady else first.start
        for number, portion in enumerate(stretch):
            for elements in portion.together:
                key = (begin, 0, first.call, elements[0], number)
                turns[PlacedRun(portion.call, elements)] = key
    return turns


def _calls(problem: Problem, execution: Execution) -> tuple[int, ...]:
    """How many elements each call of an execution computes."""
    cost = problem.costs[execution.task][execution.device]
    return cost.calls_of(len(execution.elements))


def _in_order(
    main: LoweredMain,
    turns: Mapping[PlacedRun, Key],
    moves: Mapping[TensorMove, tuple[int, float]],
) -> tuple[Item, ...]:
    """Calls and copies by start time, each after what it needs (times alone may tie, and those
    of a throughput schedule lie in one period whatever the precedence).
    """
    needs = _needs(main, turns, moves)

    def key(item: Item) -> Key:
        if isinstance(item, PlacedRun):
            return turns[item]
        call = -1 if item.root.call is None else item.root.call
        return (moves[item][1], 1, call, item.element, 0)

    keys = {item: (key(item), number) for number, item in enumerate(needs)}
    readers: dict[Item, list[Item]] = {item: [] for item in needs}
    for item, before in needs.items():
        for other in before:
            readers[other].append(item)
    waiting = {item: len(before) for item, before in needs.items()}
    ready = [(keys[item], item) for item, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[Item] = []
    while ready:
        _, item = heapq.heappop(ready)
        order.append(item)
        for reader in readers[item]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (keys[reader], reader))
    if len(order) < len(needs):
        raise ModelError("the copies of the schedule go in a circle; check it with check_schedule")
    return tuple(order)


def _needs(
    main: LoweredMain,
    runs: Mapping[PlacedRun, object],
    moves: Mapping[TensorMove, tuple[int, float]],
) -> dict[Item, list[Item]]:
    """What must stand before each call and each copy."""
    makers = [[r.call for r in main.reads(call) if r.call is not None] for call in main.calls]
    run_of = {(run.call, element): run for run in runs for element in run.elements}
    needs: dict[Item, list[Item]] = {}
    for run in runs:
        before_it = (run_of[maker, e] for maker in makers[run.call] for e in run.elements)
        needs[run] = list(dict.fromkeys(before_it))
    for move, (near, _) in moves.items():
        before = TensorMove(move.root, near, move.element)
        if before in moves:
            needs[move] = [before]
        else:
            call = move.root.call
            needs[move] = [] if call is None else [run_of[call, move.element]]
    return needs


def original_layout(main: LoweredMain) -> ProgramLayout:
    """One element, everything on one device, in the model's own order."""
    first = [PlacedRun(call.position, (0,)) for call in main.calls if 0 in call.elements]
    order = sorted(first, key=lambda run: original_position(main.task_ids[run.call]))
    count = 1 + max((max(call.elements) for call in main.calls), default=0)
    return ProgramLayout(
        batch=1,
        items=tuple(order),
        device_of={(run.call, 0): 0 for run in order},
        input_home=((0,) * (len(main.params) // count),),
        output_home=((0,) * (len(main.results()) // count),),
        source={},
    )
