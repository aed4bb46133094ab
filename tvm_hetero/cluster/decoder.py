"""A decoder on a cluster: steps and prefills in parts, over caches that stay on their nodes.

Steps compute all slots of a group at once, each lane of the plan its own. A prefill is of one slot;
its plan has every cache where the step's has it, so there is one for each lane. Groups are in
flight together: while one node works on a group, the next node works on another.

A lost node takes its caches with it. All answers fail with `NodeLost` then, until `recover` has
planned for the nodes that are left and placed the weights there; what generates prefills its
sequences again (`tvm_hetero.generation.batching`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.executor import DEADLINE, check_nodes
from tvm_hetero.cluster.parts.parts import Parts, cut_by_node
from tvm_hetero.cluster.replan import (
    TIME_LIMIT,
    ScheduledModel,
    locate_states,
    place_states,
    replan_without,
)
from tvm_hetero.cluster.runner import Runner, RunningModel
from tvm_hetero.cluster.stacking import put_elements, take_elements
from tvm_hetero.decoders.folder import PREFILL, STEP, DecoderFacts, read_facts
from tvm_hetero.errors import NodeLost, UsageError
from tvm_hetero.generation.generate import Generates
from tvm_hetero.util.closeable import Closeable


class ClusterDecoder(Generates, Closeable):
    """Generates tokens on the nodes of a cluster (a `tvm_hetero.generation.stepper.Stepper`).

    Parameters
    ----------
    step : a decoder's step, placed for a batch; prefill : its chunk, placed for one sequence, or
        None: tokens go in by steps alone.
    groups : sets of caches; as many requests may be in flight.
    stop : tokens that end a sequence unless others are given.
    facts : what the decoder is, where that is known.
    deadline : seconds that a request may take before the node that it waits for is given up.
    patience : seconds that finding another plan may take, for each of the two.

    Attributes
    ----------
    groups, batch, length, vocabulary, chunk : see `Stepper`.
    """

    def __init__(
        self,
        cluster: Cluster,
        step: ScheduledModel,
        prefill: ScheduledModel | None = None,
        *,
        groups: int = 1,
        stop: Sequence[int] = (),
        facts: DecoderFacts | None = None,
        deadline: float = DEADLINE,
        patience: float = TIME_LIMIT,
    ) -> None:
        self.cluster, self._patience = cluster, patience
        self._step, self._prefill = step, prefill
        self.facts = facts
        self._networks = [p.network for p in (step, prefill) if p is not None]
        for placed in (step, prefill):
            if placed is not None:
                check_nodes(cluster, placed)
        parts = cut_by_node(step.module, step.problem, step.schedule)
        self.groups, self.batch, self.stop = groups, parts.batch, tuple(stop)
        (logits,) = parts.outputs
        self.vocabulary = logits.shape[-1]
        self.length = _length(step)
        self.chunk = 1 if prefill is None else _tokens(prefill)
        self._models: list[RunningModel] = []
        self._runner = Runner(cluster, deadline)
        self.recover()

    def step(
        self, group: int, tokens: Sequence[int], positions: Sequence[int]
    ) -> Future[np.ndarray[Any, Any]]:
        """Put a token into each slot of a group; the logits [batch, vocabulary]."""
        self.check_rows(tokens, positions)
        model = self._models[0]
        lanes = model.parts.lanes
        shape = (self.batch, 1) if self.batch > 1 else (1,)
        values = [np.array(x, np.int32).reshape(shape) for x in (tokens, positions)]
        inputs = [[take_elements(x, lane, self.batch) for x in values] for lane in lanes]

        def finish(made: list[list[Any]]) -> np.ndarray[Any, Any]:
            logits = put_elements([row[0] for row in made], lanes, (1, self.vocabulary), self.batch)
            return logits.reshape(self.batch, self.vocabulary)

        return self._runner.submit(model, inputs, finish, group)

    def prefill(
        self, group: int, slot: int, tokens: Sequence[int], position: int
    ) -> Future[np.ndarray[Any, Any]]:
        """Put up to `chunk` tokens into a slot; the logits [vocabulary] of the last of them."""
        if self._prefill is None:
            raise UsageError("this decoder has no prefill (chunk 1): use steps")
        chunk = self.pad_chunk(tokens, position)
        model = next(m for m in self._models[1:] if m.slots is not None and slot in m.slots)
        return self._runner.submit(
            model,
            [chunk],
            lambda made: np.array(made[0][0]).reshape(self.vocabulary),
            group,
            slot,
        )

    def recover(self, again: bool = False) -> None:
        """Have slots again after a loss: plan for the nodes that are left, and place weights there.

        With `again` in any case, since nodes came back; slots are empty then.

        Raises
        ------
        InfeasibleError
            If those that are left cannot run the model.
        RunError
            If it is closed.
        """
        self.require_open()
        if again:
            self._runner.give_up("the model is placed again")
        while self._runner.loss is not None:
            self.cluster.look()
            step = replan_without(self._step, self.cluster.lost, self._patience)
            self._models = self._planned(step)
            try:
                self._runner.deploy(self._models)
            except NodeLost:
                continue  # one more is gone; there are only so many

    @classmethod
    def load(cls, cluster: Cluster, path: str | os.PathLike[str], **options: Any) -> ClusterDecoder:
        """A decoder's folder on a cluster; `options` as of the class.

        Raises
        ------
        ArtifactError
            If there is none, it is damaged or of another version, or for one node alone.
        """
        facts, step, prefill = load_placed(path)
        return cls(
            cluster, step, prefill, groups=facts.groups, stop=facts.eos, facts=facts, **options
        )

    @property
    def steps(self) -> ScheduledModel:
        """The plan of steps on all nodes."""
        return self._step

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that compute something."""
        return tuple(dict.fromkeys(node for m in self._models for node in m.parts.nodes))

    def close(self) -> None:
        """Forget the model; the cluster stays."""
        self.closed = True
        self._runner.close()

    def _planned(self, step: ScheduledModel) -> list[RunningModel]:
        """The step, and for each of its lanes a prefill with the caches where the step has them."""
        parts = cut_by_node(step.module, step.problem, step.schedule)
        models = [RunningModel(STEP, parts, self._networks[0], self.groups)]
        if self._prefill is None:
            return models
        left = replan_without(self._prefill, self.cluster.lost, self._patience)
        for number, lane in enumerate(parts.lanes):
            shared = place_states(left, locate_states(step, lane.elements[0]), self._patience)
            own = cut_by_node(shared.module, shared.problem, shared.schedule)
            models.append(
                RunningModel(f"prefill{number}", own, self._networks[1], slots=lane.elements)
            )
        return models


def load_placed(
    path: str | os.PathLike[str],
) -> tuple[DecoderFacts, ScheduledModel, ScheduledModel | None]:
    """What a decoder's folder for several nodes holds: facts, step, and prefill if there is one.

    Raises
    ------
    ArtifactError
        See `ClusterDecoder.load`.
    """
    facts, path = read_facts(path), Path(path)
    prefill = ScheduledModel.load(path / PREFILL) if facts.chunk > 1 else None
    return facts, ScheduledModel.load(path / STEP), prefill


def _tokens(prefill: ScheduledModel) -> int:
    """How many tokens a prefill takes."""
    parts: Parts = cut_by_node(prefill.module, prefill.problem, prefill.schedule)
    by_name = {given.name: given for given in parts.inputs}
    if parts.batch != 1 or [*by_name] != ["token", "position", "last"]:
        raise UsageError(
            f"a prefill is of one sequence with inputs token, position, last; got a batch of "
            f"{parts.batch} with {', '.join(by_name)}"
        )
    return by_name["token"].shape[0]


def _length(step: ScheduledModel) -> int:
    """How many rows the caches have."""
    from tvm_hetero.passes.lowered_main import read_main, static_shape
    from tvm_hetero.passes.states import states_of

    main = read_main(step.module)
    states = states_of(main)
    if not states:
        raise UsageError("the model keeps no states, so it is no decoder; use ClusterExecutor")
    return static_shape(main.params[states[0]].ty, "cache")[1]
