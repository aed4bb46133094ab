"""Where and in which order a schedule has everything done, in terms of a lowered function.

The analysis half of `tvm_hetero.passes.annotate_devices`: nothing is written here.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.passes.dataflow import LoweredMain, Root, original_position
from tvm_hetero.passes.io_tasks import host_device, input_task, output_task
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Schedule

# A call (its position), or a copy of a root to a device (its position).
Item = int | tuple[Root, int]


@dataclass(frozen=True)
class Layout:
    """Where everything goes, with devices as positions in the platform.

    Attributes
    ----------
    items : calls (an int) and copies ((root, device it is copied to)), in order.
    device_of : device of each call.
    input_home, output_home : device of each input, and of each result.
    source : where a copy of a root to a device comes from.
    """

    items: tuple[Item, ...]
    device_of: tuple[int, ...]
    input_home: tuple[int, ...]
    output_home: tuple[int | None, ...]
    source: Mapping[tuple[Root, int], int]


def plan_layout(main: LoweredMain, problem: Problem, schedule: Schedule) -> Layout:
    """Read places, order and copies out of a schedule (analysis; nothing is written)."""
    index = problem.platform.index
    starts, places = _starts_and_places(schedule)
    missing = [task for task in main.task_ids if task not in places]
    if missing or schedule.problem != problem.digest:
        raise UsageError(
            f"the schedule is not of this module and problem (task {(missing or ['?'])[0]!r}); "
            "solve the problem that make_problem gave for this module"
        )
    device_of = tuple(index[places[task]] for task in main.task_ids)
    host = host_device(problem.platform)
    names = {main.tensor_name(r): r for call in main.calls for r in _outputs(main, call.position)}
    names |= {input_task(i): Root(None, i) for i in range(len(main.params))}
    homes = [places.get(input_task(i), host) for i in range(len(main.params))]
    outputs = [places.get(output_task(i)) for i in range(len(main.results()))]
    hops = {(names[c.tensor], index[c.dst]): (index[c.src], c.start) for c in schedule.copies}
    return Layout(
        items=_in_order(main, starts, hops),
        device_of=device_of,
        input_home=tuple(index[home] for home in homes),
        output_home=tuple(None if place is None else index[place] for place in outputs),
        source={key: src for key, (src, _) in hops.items()},
    )


def _starts_and_places(schedule: Schedule) -> tuple[dict[str, float], dict[str, str]]:
    starts: dict[str, float] = {}
    places: dict[str, str] = {}
    for execution in schedule.executions:
        task = execution.task
        if places.setdefault(task, execution.device) != execution.device:
            raise UsageError(
                f"task {task!r} runs on {places[task]!r} and on {execution.device!r}; a module "
                "can be annotated only where every task has one device: use batch 1"
            )
        starts[task] = min(execution.start, starts.get(task, execution.start))
    return starts, places


def _outputs(main: LoweredMain, call: int) -> list[Root]:
    return [Root(call, k) for k in range(len(main.calls[call].outputs))]


def _in_order(
    main: LoweredMain,
    starts: Mapping[str, float],
    hops: Mapping[tuple[Root, int], tuple[int, float]],
) -> tuple[Item, ...]:
    """Calls and copies by start time, each after what it needs (times alone may tie, and those
    of a throughput schedule lie in one period whatever the precedence).
    """
    needs = _needs(main, hops)
    key: dict[Item, tuple[float, int, int]] = {}
    for number, item in enumerate(needs):
        if isinstance(item, int):
            key[item] = (starts[main.task_ids[item]], 0, number)
        else:
            key[item] = (hops[item][1], 1, number)
    readers: dict[Item, list[Item]] = {item: [] for item in needs}
    for item, before in needs.items():
        for other in before:
            readers[other].append(item)
    waiting = {item: len(before) for item, before in needs.items()}
    ready = [(key[item], item) for item, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[Item] = []
    while ready:
        _, item = heapq.heappop(ready)
        order.append(item)
        for reader in readers[item]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (key[reader], reader))
    if len(order) < len(needs):
        raise ModelError("the copies of the schedule go in a circle; check it with check_schedule")
    return tuple(order)


def _needs(
    main: LoweredMain, hops: Mapping[tuple[Root, int], tuple[int, float]]
) -> dict[Item, list[Item]]:
    """What must stand before each call and each copy."""
    needs: dict[Item, list[Item]] = {
        call.position: [r.call for r in main.reads(call) if r.call is not None]
        for call in main.calls
    }
    for (root, device), (near, _) in hops.items():
        if (root, near) in hops:
            needs[root, device] = [(root, near)]
        else:
            needs[root, device] = [] if root.call is None else [root.call]
    return needs


def original_layout(main: LoweredMain) -> Layout:
    """Everything on one device, in the model's own order."""
    order = sorted(range(len(main.calls)), key=lambda i: original_position(main.task_ids[i]))
    return Layout(
        items=tuple(order),
        device_of=(0,) * len(main.calls),
        input_home=(0,) * len(main.params),
        output_home=(0,) * len(main.results()),
        source={},
    )
