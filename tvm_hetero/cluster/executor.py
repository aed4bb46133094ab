"""A model on a cluster, used as one on this machine is: inputs by name, outputs in order.

Nothing is lost with a node: a model without states is a function, so requests that were in flight
begin again on what is left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import numpy as np
import tvm

from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.parts.parts import Parts, cut_by_node
from tvm_hetero.cluster.replan import TIME_LIMIT, ScheduledModel, replan_without
from tvm_hetero.cluster.runner import Runner, RunningModel
from tvm_hetero.cluster.stacking import put_elements, take_elements
from tvm_hetero.devices.target import CPU
from tvm_hetero.errors import DeadlineError, NodeLost, UsageError
from tvm_hetero.executor.batches import join_outputs, make_stacks
from tvm_hetero.executor.inputs import InputReader, RequestTensors, merge_inputs, random_values
from tvm_hetero.executor.profiling import Inputs
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.plan.element_names import element_names
from tvm_hetero.plan.model import DevicePlan, InputPlan, Plan, SlotPlan, TensorPlan
from tvm_hetero.util.closeable import Closeable

# Seconds that a request may take before the node that it waits for is given up.
DEADLINE = 60.0
# Requests that a node has beside the one that it computes, so that it never waits for the next.
_AHEAD = 2


class ClusterExecutor(Closeable):
    """Runs a model in parts on the nodes of a cluster.

    Parameters
    ----------
    mod : placed: an annotated module, or `ScheduledModel`.
    deadline : seconds that a request may take before the node that it waits for is given up.
    patience : seconds that finding another plan after a loss may take.

    Attributes
    ----------
    inputs, outputs, batch : as those of `tvm_hetero.executor.executor.Executor`.
    placed : module, problem and schedule as they are now.
    depth : how many requests `map` has in flight.
    """

    def __init__(
        self,
        cluster: Cluster,
        mod: tvm.IRModule | ScheduledModel,
        *,
        deadline: float = DEADLINE,
        patience: float = TIME_LIMIT,
    ) -> None:
        self.cluster, self._patience = cluster, patience
        self._whole = mod if isinstance(mod, ScheduledModel) else ScheduledModel.of(mod)
        self._network = self._whole.network
        check_nodes(cluster, self._whole)
        self.placed = self._whole
        self._runner = Runner(cluster, deadline)
        self._mending = threading.Lock()
        parts = cut_by_node(self.placed.module, self.placed.problem, self.placed.schedule)
        if any(part.states for lane in parts.lanes for part in lane.parts):
            raise UsageError(
                "the model keeps states, so it is part of a decoder; use ClusterDecoder, or "
                "'tvm-hetero generate DECODER --cluster'"
            )
        self.batch = parts.batch
        self._reader = InputReader(_input_plan(parts))
        self.inputs = self._reader.infos
        names = [output.name for output in parts.outputs]
        self._stacks = make_stacks(element_names(names, self.batch), self.batch)
        self.outputs = tuple(names)
        self._model = RunningModel("run", parts, self._network)
        self.recover()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that compute something."""
        return self._model.parts.nodes

    @property
    def depth(self) -> int:
        """How many requests are in flight at most in `map`."""
        return len(self._model.parts.nodes) * _AHEAD

    def run(
        self, inputs: Inputs | None = None, /, *, deadline: float | None = None, **named: Any
    ) -> list[Any]:
        """Run the model once; see `tvm_hetero.executor.executor.Executor.run`.

        Raises
        ------
        RunError
            If an input does not fit, or a node fails.
        InfeasibleError
            If too few nodes are left.
        DeadlineError
            If it was not done in time.
        """
        request = self._reader.read(merge_inputs(inputs, named))
        return self._result(request, self._submit(request), deadline)

    def map(self, batches: Iterable[Inputs]) -> Iterator[list[Any]]:
        """Run the model on many inputs; every node works on another. Outputs come in order."""
        waiting: deque[tuple[RequestTensors, Future[Any]]] = deque()
        for inputs in batches:
            request = self._reader.read(inputs, copy=True)
            waiting.append((request, self._submit(request)))
            if len(waiting) >= self.depth:
                yield self._result(*waiting.popleft())
        while waiting:
            yield self._result(*waiting.popleft())

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Seeded standard-normal inputs; integers in the input's range, else from 0 to 9."""
        return random_values(self.inputs, seed)

    def recover(self, again: bool = False) -> None:
        """Place the model on the nodes that are there, after a plan for them, if a node was lost.

        With `again` in any case, since nodes came back.

        Raises
        ------
        InfeasibleError
            If they cannot run the model.
        """
        with self._mending:
            if again:
                self._runner.give_up("the model is placed again")
            while self._runner.loss is not None:
                self.cluster.look()
                self.placed = replan_without(self._whole, self.cluster.lost, self._patience)
                placed = self.placed
                parts = cut_by_node(placed.module, placed.problem, placed.schedule)
                self._model = RunningModel("run", parts, self._network)
                try:
                    self._runner.deploy([self._model])
                except NodeLost:
                    continue  # one more is gone; there are only so many

    def close(self) -> None:
        """Forget the model; the cluster stays."""
        self._runner.close()

    def _submit(self, request: RequestTensors) -> Future[Any]:
        model, batch = self._model, self.batch
        stacked = _stacked(request, len(self.inputs), batch)
        inputs = [[take_elements(x, lane, batch) for x in stacked] for lane in model.parts.lanes]

        def finish(made: list[list[Any]]) -> list[Any]:
            outputs = []
            for k, output in enumerate(model.parts.outputs):
                of_lanes = [row[k] for row in made]
                outputs.append(put_elements(of_lanes, model.parts.lanes, output.shape, batch))
            rows = [outputs[k] if batch == 1 else outputs[k][e, ...]
                    for e in range(batch) for k in range(len(outputs))]  # fmt: skip
            if batch == 1:
                return [tvm.runtime.tensor(np.ascontiguousarray(row)) for row in rows]
            return join_outputs(self._stacks, request.merged, rows)

        return self._runner.submit(model, inputs, finish)

    def _result(
        self, request: RequestTensors, answer: Future[Any], deadline: float | None = None
    ) -> list[Any]:
        while True:
            try:
                result: list[Any] = answer.result(deadline)
                return result
            except NodeLost:
                self.recover()
                answer = self._submit(request)
            except FutureTimeout:
                raise DeadlineError(f"deadline: it was not done within {deadline:g} s") from None


def check_nodes(cluster: Cluster, placed: ScheduledModel) -> None:
    """Refuse a plan for nodes that the cluster lacks.

    Raises
    ------
    UsageError
        If there is one.
    """
    known = {*cluster.nodes, *cluster.lost}
    for device in placed.problem.platform.devices:
        if device.node not in known:
            raise UsageError(
                f"the plan is for device {device.name!r} on node {device.node!r}, which is not in "
                f"the cluster ({', '.join(cluster.nodes)}); plan for the platform that "
                "'tvm-hetero cluster FILE -o PLATFORM.yaml' writes"
            )


def _input_plan(parts: Parts) -> Plan:
    """What `InputReader` wants to know of a plan: inputs that all arrive in main memory."""
    names = element_names([x.name for x in parts.inputs], parts.batch)
    inputs = tuple(
        InputPlan(name, 0, TensorPlan(tuple(x.shape), x.dtype))
        for name, x in zip(names, parts.inputs * parts.batch, strict=True)
    )
    return Plan(
        parts.batch,
        devices=(DevicePlan("host", CPU, 0),),
        workers=(),
        slots=(SlotPlan("input", 0, None),),
        inputs=inputs,
        constants=(),
        outputs=(),
        steps=(),
    )


def _stacked(request: RequestTensors, inputs: int, batch: int) -> list[np.ndarray[Any, Any]]:
    """The inputs of a request, those of all elements stacked."""
    arrays = [as_array(tensor) for tensor in request.tensors]
    if batch == 1:
        return arrays
    return [np.stack(arrays[k::inputs]) for k in range(inputs)]
