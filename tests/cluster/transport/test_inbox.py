"""What has come to a node completes parts, in whatever order it comes; and nothing is left."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.clusters import nodes, planned
from tests.random_models import make_module, programs
from tvm_hetero.cluster.parts.parts import PartSource, cut_by_node
from tvm_hetero.cluster.transport.inbox import Inbox
from tvm_hetero.cluster.transport.message import DRIVER, GIVEN, Message, MessagePlace
from tvm_hetero.cluster.transport.routes import group_by_reader, message_bytes, route_lane
from tvm_hetero.errors import ModelError


def place(number: int, *sources: PartSource) -> MessagePlace:
    return MessagePlace("m", 0, number, sources, ((DRIVER,),))


def message(part: int, *indices: int, request: int = 7, model: str = "m") -> Message:
    arrays = [np.array([part, index]) for index in indices]
    return Message(model, 0, part, request, 3, None, indices, arrays)


def test_a_part_is_computed_when_its_last_input_comes() -> None:
    inbox = Inbox()
    inbox.expect("first", place(0, PartSource(None, 1)))
    inbox.expect("last", place(2, PartSource(1, 0), PartSource(None, 1), PartSource(1, 0)))
    assert inbox.add(message(1, 0)) == []
    (first, last) = inbox.add(message(GIVEN, 1))
    assert (first.part, last.part) == ("first", "last")
    assert (last.request, last.group, last.slot) == (7, 3, None)
    assert [array.tolist() for array in last.arrays] == [[1, 0], [GIVEN, 1], [1, 0]]
    assert inbox.computing(7) == ["first", "last"] and inbox.computing(8) == []
    inbox.done(last)
    assert inbox.computing(7) == ["first"] and len(inbox) == 1
    inbox.done(first)
    assert len(inbox) == 0


def test_a_part_without_inputs_waits_for_the_request() -> None:
    inbox = Inbox()
    inbox.expect("alone", place(0))
    inbox.expect("other", place(1, PartSource(None, 0)))
    assert {work.part for work in inbox.add(message(GIVEN, 0))} == {"alone", "other"}
    inbox.clear()
    inbox.expect("alone", place(0))
    ((work),) = inbox.add(message(GIVEN))
    assert work.arrays == ()


def test_requests_do_not_meet_and_those_that_failed_are_forgotten() -> None:
    inbox = Inbox()
    inbox.expect("part", place(1, PartSource(0, 0), PartSource(0, 1)))
    assert inbox.add(message(0, 0, request=1)) == inbox.add(message(0, 1, request=2)) == []
    assert len(inbox) == 2
    inbox.forget(1)
    assert len(inbox) == 1
    # What was still on its way begins nothing anew.
    assert inbox.add(message(0, 0, 1, request=1)) == [] and len(inbox) == 1
    (work,) = inbox.add(message(0, 0, request=2))
    inbox.forget(2)
    inbox.done(work)
    assert len(inbox) == 0
    assert inbox.add(message(0, 0, 1, request=3, model="gone")) == [] and len(inbox) == 0


@given(program=programs(), seed=st.integers(0, 10**6))
def test_everything_is_computed_once_whatever_comes_first(program, seed) -> None:
    try:
        module, problem, schedule = planned(make_module(program), nodes(1, 1, 1), seed, sizes=False)
    except ModelError:
        return
    parts = cut_by_node(module, problem, schedule)
    (lane,) = parts.lanes
    ways = route_lane("m", 0, lane)
    sizes = message_bytes(parts, [ways])
    inboxes = {node: Inbox() for node in parts.nodes}
    for part, at in zip(lane.parts, ways.places, strict=True):
        inboxes[part.node].expect(part.name, at)
    node_of = {part.name: part.node for part in lane.parts}
    rng = random.Random(seed)
    sent = [(node, message(GIVEN, *indices)) for node, indices in ways.given.items()]
    assert all((DRIVER, node) in sizes for node, _ in sent)
    computed, results = [], set()
    while sent:
        reader, came = sent.pop(rng.randrange(len(sent)))
        if reader == DRIVER:
            results |= {PartSource(came.part, index) for index in came.indices}
            continue
        for work in inboxes[reader].add(came):
            computed.append(work.part)
            inboxes[reader].done(work)
            for array, source in zip(work.arrays, work.place.sources, strict=True):
                of = GIVEN if source.part is None else source.part
                assert array.tolist() == [of, source.index]
            for other, indices in group_by_reader(work.place).items():
                sent.append((other, message(work.place.number, *indices)))
                assert other == node_of[work.part] or (node_of[work.part], other) in sizes
    assert sorted(computed) == sorted(part.name for part in lane.parts)
    assert results == {source for source in lane.results if source.part is not None}
    assert [len(inbox) for inbox in inboxes.values()] == [0] * len(inboxes)
