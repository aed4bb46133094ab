"""How costs in place are measured, and what of it is kept.

Everything is run in several turns, so that what disturbs the machine for a second meets all.

A task that a device cannot run is run on another one meanwhile (and its tensors are copied, where
that is needed), so everything that is read has its true values. Weights are the model's own;
inputs are random, integers in the middle of their range (0 if the model gives none: indices).

Of the rounds of a network, each call counts with the lower quartile of its times, since what else
runs on the machine only adds. Quartiles of many calls do not fall into one round: their sum is
below the median round, always. So all are stretched to the median round, but by
`MOST_STRETCH` at the most, for on a machine that others use that round is not a quiet one.

Turns go on while the lower quarter of the rounds reaches further than `Rounds.noise` above the
fastest one, for a while. What has settled is kept in the store beside the kernels' times: a network
that comes again has the very same costs, hence the same plan. What has not is used, but not kept,
nor is what takes `IMPLAUSIBLE` times as long as the kernels alone: the machine was busy all along.
Each number of elements is an entry of its own. Several elements take longer and are run less often:
what there is to gain by computing them at once is more than noise.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tvm_hetero.cost_models.in_network.batched_kernels import (
    SIZES,
    Together,
    find_batchable,
    on_devices,
)
from tvm_hetero.cost_models.in_network.run import (
    Load,
    MeasuredNetwork,
    Refused,
    Rounds,
    open_networks,
    run_in_turns,
)
from tvm_hetero.cost_models.protocol import Progress, not_at_once, not_in_place
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.cost_models.store.identity import place_of
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.equivalent_devices import Seconds
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.documents import canonical_json

if TYPE_CHECKING:
    import tvm

# Part of every key: raise it when the way of measuring changes, so that old times are not used.
METHOD = "in-place/9"
MOST_STRETCH = 1.03
IMPLAUSIBLE = 1.3
# With several elements a turn takes longer, by this factor, but may be of one round; most turns.
_LONGER, _TURNS = 2.5, 3


@dataclass(frozen=True)
class NetworkBench:
    """A network to measure, and how (see
    `tvm_hetero.cost_models.in_network.costs.measure_in_place`)."""

    mod: tvm.IRModule
    problem: Problem
    store: CostStore | None
    progress: Progress | None
    rounds: Rounds
    again: bool

    def one_element(self) -> tuple[Seconds, Seconds]:
        """What tasks take alone and loaded."""
        if (known := self._find(1)) is not None:
            return known["alone"], known["loaded"]
        alone: Seconds = {}
        loaded: Seconds = {}
        quiet = True
        for names in _by_node(self.problem.platform):
            with self._networks([Load(name) for name in names], not_in_place) as built:
                loaded_crews = [crew for crew in self._crews(built) if len(crew) > 1]
                crews = [*([each] for each in built), *loaded_crews]
                quiet &= run_in_turns(crews, self.rounds, self.progress)
                for network in built:
                    _add(alone, network, network.alone)
                    _add(loaded, network, network.loaded)
        if quiet and _plausible(alone, self.problem):
            self._keep({"alone": alone, "loaded": loaded}, 1)
        return alone, loaded

    def batches(self, single: Seconds) -> dict[int, Together]:
        """What candidates take for each number of elements that was tried, if there are any.

        `single` is what one element takes, on the devices that can run the network.
        """
        found: dict[int, Together] = {}
        tasks = find_batchable(self.mod, self.problem) if self.problem.batch > 1 else frozenset()
        for size in reversed(SIZES):
            if size <= self.problem.batch and tasks:
                most = max(found, default=size)
                apart = found[most].apart_with(size, most, single) if found else None
                found[size] = self._together(size, tasks, single, apart)
                tasks = found[size].paying
        return found

    def _together(
        self, size: int, tasks: Collection[str], single: Seconds, apart: Seconds | None
    ) -> Together:
        """What some tasks take for so many elements; apart, too, if that is not known."""
        if (known := self._find(size, sorted(tasks), apart is None)) is not None:
            return Together(known["at_once"], apart or known["apart"])
        own = on_devices(tasks, self.problem)
        able = {device for row in single.values() for device in row}
        at_once: Seconds = {}
        plain: Seconds = {}
        quiet = True
        for names in _by_node(self.problem.platform):
            here = {name: own.get(name, frozenset()) for name in names if name in able}
            if any(here.values()):
                quiet &= self._run_batch(size, here, at_once, plain, both=apart is None)
        quiet = quiet and _plausible(plain or at_once, self.problem, size)
        found = Together(_only(at_once, own), apart or _only(plain, own))
        if quiet:
            entry = {"at_once": found.at_once, "apart": found.apart}
            self._keep(entry, size, sorted(tasks), apart is None)
        return found

    def _run_batch(
        self,
        size: int,
        tasks: Mapping[str, Collection[str]],
        at_once: Seconds,
        apart: Seconds,
        *,
        both: bool,
    ) -> bool:
        """Run some elements on devices of one node, apart only with `both`; whether the machine
        was quiet.
        """
        together = [Load(name, size, own) for name, own in tasks.items()]
        failed = partial(not_at_once, size)
        with ExitStack() as stack:
            batched = stack.enter_context(self._networks(together, failed))
            loads = [Load(each.device, size) for each in batched if both]
            plain = stack.enter_context(self._networks(loads, failed))
            crews = [*self._crews(batched), *self._crews(plain)]
            quiet = run_in_turns(crews, self._shorter, self.progress)
            for seconds, networks in ((at_once, batched), (apart, plain)):
                for network in networks:
                    _add(seconds, network, network.loaded or network.alone)
        return quiet

    def _crews(self, built: Sequence[MeasuredNetwork]) -> list[list[MeasuredNetwork]]:
        """Those whose devices can be busy at once: each in one, with as many as share no core."""
        crews: list[list[MeasuredNetwork]] = []
        for network in sorted(built, key=self._width):
            rivals = self.problem.platform.rivals(network.device)
            for crew in crews:
                if not any(other.device in rivals for other in crew):
                    crew.append(network)
                    break
            else:
                crews.append([network])
        return crews

    def _width(self, network: MeasuredNetwork) -> int:
        return len(self.problem.platform.device(network.device).cores)

    @property
    def _shorter(self) -> Rounds:
        """Rounds of several elements, which take that many times as long."""
        budget, most = _LONGER * self.rounds.budget, min(self.rounds.most_turns, _TURNS)
        return replace(self.rounds, least=1, budget=budget, most_turns=most)

    def _networks(
        self, loads: Sequence[Load], refused: Refused
    ) -> AbstractContextManager[list[MeasuredNetwork]]:
        return open_networks(self.mod, self.problem, loads, refused, self.progress)

    def _find(self, *what: Any) -> dict[str, Any] | None:
        """What is in the store of so many elements (and such tasks at once)."""
        if self.store is None or self.again:
            return None
        return self.store.find_network(self._key(*what))

    def _keep(self, seconds: Mapping[str, Any], *what: Any) -> None:
        if self.store is not None:
            self.store.add_network(self._key(*what), seconds)

    def _key(self, *what: Any) -> str:
        return canonical_json([METHOD, *what, *self._what_and_where])

    @cached_property
    def _what_and_where(self) -> list[Any]:
        """Everything that the times depend on: the network, how it is computed, and where.

        A schedule is known by what its kernel takes alone: kernels here are not scheduled, and a
        time that is kept is kept for the scheduled text.
        """
        main = read_main(self.mod)
        kernels = {call.kernel.name_hint: call.kernel for call in main.calls}
        hashes = {name: tvm_ffi.structural_hash(self.mod[gvar]) for name, gvar in kernels.items()}
        network = [
            [main.task_ids[call.position], hashes[call.kernel.name_hint] & (2**64 - 1)]
            for call in main.calls
        ]
        graph, platform = self.problem.graph, self.problem.platform
        edges = [[edge.src, edge.dst, edge.bytes, edge.tensor] for edge in graph.edges]
        ways = {task: _ways(row) for task, row in self.problem.costs.items()}
        digest = hashlib.sha256(canonical_json([network, edges, ways]).encode()).hexdigest()
        places = [
            [device.name, device.node, device.private, place_of(platform, device).text]
            for device in platform.devices
            if device.target is not None
        ]
        return [digest, places]


def typical_times(rounds: Sequence[Sequence[float]]) -> list[float]:
    """What each call takes (s), from its times in several rounds; see the file's text."""
    median = statistics.median(math.fsum(times) for times in rounds)
    calls = [_lower_quartile(times) for times in zip(*rounds, strict=True)]
    if not any(calls):  # of a device that runs none
        return calls
    stretch = min(max(1.0, median / math.fsum(calls)), MOST_STRETCH)
    return [seconds * stretch for seconds in calls]


def _plausible(seconds: Seconds, problem: Problem, elements: int = 1) -> bool:
    """Whether the network takes on every device about what its kernels take alone."""
    for device in problem.platform.names:
        rows = [(task, row[device]) for task, row in seconds.items() if device in row]
        kernels = math.fsum(problem.seconds(task, device) for task, _ in rows)
        if math.fsum(value for _, value in rows) > IMPLAUSIBLE * elements * kernels:
            return False
    return True


def _lower_quartile(times: Sequence[float]) -> float:
    return sorted(times)[(len(times) - 1) // 4]


def _add(seconds: Seconds, network: MeasuredNetwork, rounds: Sequence[Sequence[float]]) -> None:
    """Write down what the rounds of a network say, if there were any."""
    for task, value in zip(
        network.tasks, typical_times(rounds) if rounds else (), strict=bool(rounds)
    ):
        row = seconds.setdefault(task, {})
        row[network.device] = row.get(network.device, 0.0) + value


def _only(seconds: Seconds, tasks: Mapping[str, Collection[str]]) -> Seconds:
    """The times of certain tasks of each device."""
    rows = {
        task: {device: value for device, value in row.items() if task in tasks.get(device, ())}
        for task, row in seconds.items()
    }
    return {task: row for task, row in rows.items() if row}


def _by_node(platform: Platform) -> list[list[str]]:
    """Devices that can be busy at once *here*: another node's are measured as if on this one.

    Boards that are reached by RPC do not time their kernels one by one: theirs cost what they take
    alone (`tvm_hetero.cost_models.links.rpc_devices`).
    """
    nodes: dict[str, list[str]] = {}
    for device in platform.devices:
        if device.target is not None and device.rpc is None:
            nodes.setdefault(device.node, []).append(device.name)
    return list(nodes.values())


def _ways(row: Mapping[str, Cost]) -> dict[str, Any]:
    return {device: [cost.implementation, cost.points] for device, cost in row.items()}
