"""Plans that the executor refuses, and in which words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

from tests.executor.native_plans import (
    PlanBuilder,
    chain,
    create,
    diamond,
    refused,
)
from tvm_hetero.errors import ArtifactError, PlatformError
from tvm_hetero.executor import native

Change = Callable[[dict[str, Any]], object]

# What is done to the diamond's plan, and what the message must say about it.
BROKEN: dict[str, tuple[Change, list[str]]] = {
    "format": (lambda p: p.update(format="tvm-hetero/plan/1"), ["plan/1", "expected", "plan/2"]),
    "no format": (lambda p: p.pop("format"), ["format is missing"]),
    "no batch": (lambda p: p.pop("batch"), ["batch is missing"]),
    "batch of none": (lambda p: p.update(batch=0), ["batch is 0", "1 or more"]),
    "unknown key": (lambda p: p.update(stages=3), ["unknown key stages", "expected keys"]),
    "unknown key of a step": (
        lambda p: p["steps"][2].update(wroker=3),
        ["unknown key steps[2].wroker", "worker"],
    ),
    "copy's key in a call": (
        lambda p: p["steps"][0].update(to_device=0),
        ["unknown key steps[0].to_device"],
    ),
    "missing key": (lambda p: p["steps"][1].pop("ins"), ["steps[1].ins is missing"]),
    "list that is none": (lambda p: p.update(slots=4), ["slots is 4", "expected a list"]),
    "row that is none": (lambda p: p["slots"].append(None), ["slots[5] is null", "an object"]),
    "text for a number": (
        lambda p: p["workers"][1].update(device="cpu"),
        ['workers[1].device is "cpu"', "an integer"],
    ),
    "bool for a number": (
        lambda p: p["workers"][1].update(device=False),
        ["workers[1].device is false", "an integer"],
    ),
    "number for a text": (lambda p: p["slots"][0].update(name=7), ["slots[0].name is 7"]),
    "text in a list": (lambda p: p["steps"][1].update(ins=["a"]), ['steps[1].ins[0] is "a"']),
    "negative slot": (lambda p: p["steps"][1].update(ins=[-1]), ["steps[1].ins[0] is -1"]),
    "core that is none": (lambda p: p["workers"][0].update(cores=[0.5]), ["workers[0].cores[0]"]),
    "role": (lambda p: p["workers"][0].update(role="dma"), ['"dma"', '"compute" or "copy"']),
    "kind": (
        lambda p: p["steps"][0].update(kind="jump"),
        ['"jump"', '"kernels", "call" or "copy"'],
    ),
    "dtype": (lambda p: p["inputs"][0].update(dtype="float99x"), ["inputs[0].dtype", "float32"]),
    "number for a truth": (
        lambda p: p["inputs"][0].update(state=1),
        ["inputs[0].state is 1", "true or false"],
    ),
    "length that is none": (
        lambda p: p["outputs"][0].update(length=[3]),
        ["outputs[0].length", "the slot of a length and the axis"],
    ),
    "length of no slot": (
        lambda p: p["outputs"][0].update(length=[9, 0], shape=[2]),
        ["outputs[0]", "the slot of a length is 9", "there are 5 slots"],
    ),
    "length of no axis": (
        lambda p: p["outputs"][0].update(length=[0, 1], shape=[2]),
        ["outputs[0]", "the axis of a length is 1", "there is 1 axes"],
    ),
    "length without a shape": (
        lambda p: p["outputs"][0].update(length=[0, 0]),
        ["outputs[0]", "the axis of a length is 0", "there are 0 axes"],
    ),
    "length that is no number": (
        lambda p: p["outputs"][0].update(length=[0, 0], shape=[2]),
        ["outputs[0]", "its length is in slots[0]", "one int64 in main memory"],
    ),
    "range that is none": (
        lambda p: p["inputs"][0].update(range=[3, 2]),
        ["inputs[0].range", "the least and the largest"],
    ),
    "state that many read": (
        lambda p: p["inputs"][0].update(state=True),
        ["inputs[0]", "is a state", "exactly one call"],
    ),
    "no dtype at all": (lambda p: p["inputs"][0].update(dtype=""), ["inputs[0].dtype", "float32"]),
    "shape without dtype": (
        lambda p: p["slots"][1].update(shape=[2]),
        ["slots[1].dtype is missing"],
    ),
    "dtype without shape": (
        lambda p: p["slots"][1].update(dtype="float32"),
        ["slots[1].shape is missing"],
    ),
    "shape beyond all memory": (
        lambda p: p["inputs"][0].update(shape=[2**31, 2**31]),
        ["inputs[0] 'x'", "too large"],
    ),
    "slot of another size than its input": (
        lambda p: p["slots"][0].update(shape=[3], dtype="float64"),
        ["slots[0] 't0' has 24 bytes", "input 16"],
    ),
    "kernels' keys in a call": (
        lambda p: p["steps"][0].update(calls=[]),
        ["unknown key steps[0].calls"],
    ),
    "shape": (lambda p: p["inputs"][0].update(shape=[-1, 2]), ["inputs[0] 'x'", "-1"]),
    "shape of an output": (lambda p: p["outputs"][0].update(shape=[-1]), ["outputs[0] 'y'", "-1"]),
    "worker's device": (
        lambda p: p["workers"][1].update(device=4),
        ["workers[1] 'w1'", "device is 4", "is 1 devices"],
    ),
    "slot's device": (lambda p: p["slots"][3].update(device=1), ["slots[3] 't3'", "device is 1"]),
    "step's worker": (
        lambda p: p["steps"][1].update(worker=2),
        ["steps[1] 'left'", "worker is 2", "2 workers"],
    ),
    "in-slot": (lambda p: p["steps"][1].update(ins=[99]), ["'left'", "in-slot is 99", "5 slots"]),
    "out-slot": (lambda p: p["steps"][1].update(outs=[99]), ["'left'", "out-slot is 99"]),
    "input's slot": (lambda p: p["inputs"][0].update(slot=50), ["inputs[0] 'x'", "slot is 50"]),
    "output's slot": (lambda p: p["outputs"][0].update(slot=50), ["outputs[0] 'y'", "is 50"]),
    "filled by two steps": (
        lambda p: p["steps"][2].update(outs=p["steps"][1]["outs"]),
        ["slots[2] 't2' is filled twice", "'left'", "'right'"],
    ),
    "filled by an input too": (
        lambda p: p["steps"][2].update(outs=[0]),
        ["slots[0] 't0' is filled twice", "inputs[0] 'x'", "'right'"],
    ),
    "never filled": (
        lambda p: p["steps"][1].update(outs=[]),
        ["steps[3] 'bottom' reads slots[2] 't2'", "no input, constant or step fills"],
    ),
    "superfluous slot": (
        lambda p: p["slots"].append({"name": "spare", "device": 0}),
        ["slots[5] 'spare'", "no input, constant or step fills"],
    ),
    "two workers of one name": (
        lambda p: p["workers"][1].update(name="w0"),
        ["two workers are named 'w0'"],
    ),
    "two outputs of one name": (
        lambda p: p["outputs"].append({"name": "y", "slot": 1}),
        ["two outputs are named 'y'"],
    ),
    "alike to none": (
        lambda p: p["workers"][0].update(alike=1),
        ["workers[0] 'w0'", "alike to worker 1", "it stands behind it"],
    ),
    "alike to one that is not": (
        lambda p: p["workers"][1].update(alike=0),
        ["workers[1] 'w1'", "alike to worker 0", "not the first of its kind"],
    ),
    "alike with more cores": (
        lambda p: [row.update(alike=0, cores=[0] * i) for i, row in enumerate(p["workers"])],
        ["workers[1] 'w1'", "not equally many cores"],
    ),
    "alike and a copy engine": (
        lambda p: [row.update(alike=0, role="copy") for row in p["workers"]],
        ["workers[0] 'w0'", "it copies"],
    ),
    "alike in two memories": (
        lambda p: [
            p["devices"].append({"name": "far", "dl_type": 1, "dl_id": 1}),
            *(row.update(alike=0, device=i) for i, row in enumerate(p["workers"])),
            *(p["slots"][row["outs"][0]].update(device=row["worker"]) for row in p["steps"]),
            p.update(steps=p["steps"][:2], outputs=[], slots=p["slots"][:3]),
            p["steps"][1].update(ins=[]),
        ],
        ["workers[1] 'w1'", "they are on two devices"],
    ),
    "alike, with a copy": (
        lambda p: [
            [row.update(alike=0) for row in p["workers"]],
            p["slots"].append({"name": "copied", "device": 0}),
            p["steps"].append(
                {
                    "kind": "copy",
                    "name": "copy",
                    "worker": 1,
                    "ins": [4],
                    "outs": [5],
                    "to_device": 0,
                }
            ),
        ],
        ["steps[4] 'copy' copies", "no other alike"],
    ),
    "a meeting of nobody": (
        lambda p: p["workers"][1].update(threads=[2]),
        ["workers[1] 'w1'", "is a meeting", "worker 2 is not there: there are 2 workers"],
    ),
    "a meeting with itself": (
        lambda p: p["workers"][1].update(threads=[0, 1]),
        ["workers[1] 'w1'", "worker 1 is a meeting itself"],
    ),
    "a meeting of one who is there twice": (
        lambda p: p["workers"][1].update(threads=[0, 0]),
        ["workers[1] 'w1'", "worker 0 is there twice"],
    ),
    "a meeting of several cores each": (
        lambda p: [p["workers"][0].update(cores=[0, 1]), p["workers"][1].update(threads=[0])],
        ["workers[1] 'w1'", "worker 0 has several cores"],
    ),
    "a meeting that copies": (
        lambda p: p["workers"][1].update(threads=[0], role="copy"),
        ["workers[1] 'w1'", "it copies"],
    ),
    "a meeting that calls": (
        lambda p: p["workers"][1].update(threads=[0]),
        ["is no kernels step", "a thread of its own"],
    ),
    "deadlock on one worker": (
        lambda p: p["steps"].insert(0, p["steps"].pop(3)),
        ["deadlock", "'bottom' (worker 'w0') waits for"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plan_is_refused_in_words(case: str) -> None:
    change, expected = BROKEN[case]
    plan = copy.deepcopy(diamond().plan)
    change(plan)
    message = refused(plan)
    assert [text for text in expected if text not in message] == [], message
    assert message.startswith("plan: ")


def test_deadlock_across_workers_names_a_cycle() -> None:
    builder = PlanBuilder(workers=2)
    x = builder.input()
    [a] = builder.call([x], worker=0, name="a")
    [b] = builder.call([x], worker=1, name="b")
    # Each worker first does the step that waits for the other worker's second step.
    [c] = builder.call([b], worker=0, name="c")
    [d] = builder.call([a], worker=1, name="d")
    builder.output(c, "c").output(d, "d")
    steps = builder.plan["steps"]
    builder.plan["steps"] = [steps[2], steps[0], steps[3], steps[1]]
    message = refused(builder.plan)
    assert "deadlock" in message
    assert all(f"'{name}'" in message for name in "abcd")


def test_tensors_must_be_where_they_are_read() -> None:
    builder = chain(2, workers=2)
    builder.plan["devices"].append({"name": "gpu", "dl_type": 2, "dl_id": 0})
    builder.plan["workers"][1]["device"] = 1
    message = refused(builder.plan)
    assert "'s1' works on cuda:0" in message
    assert "is on cpu:0" in message
    assert "copy step" in message


def test_a_copy_takes_one_slot_to_its_device() -> None:
    builder = PlanBuilder()
    builder.output(builder.copy(builder.input()))
    builder.plan["steps"][0]["ins"] = []
    assert "copies 0 slots into 1" in refused(builder.plan)
    builder.plan["steps"][0].update(ins=[0], to_device=1)
    builder.plan["devices"].append({"name": "gpu", "dl_type": 2, "dl_id": 0})
    assert "works on cuda:0" in refused(builder.plan)


def test_not_json_is_refused() -> None:
    native.load_library()
    with pytest.raises(ValueError, match="not a JSON document"):
        tvm_ffi.get_global_func("tvm_hetero.create_executor")("{")
    with pytest.raises(ValueError, match="the document is \\[\\], expected an object"):
        tvm_ffi.get_global_func("tvm_hetero.create_executor")("[]")


def test_a_core_that_is_not_there_is_refused() -> None:
    builder = chain(1)
    builder.plan["workers"][0]["cores"] = [0, 1000]
    with pytest.raises(PlatformError, match=r"worker 'w0'.*cores \[0, 1000\]"):
        create(builder.plan)


def test_a_library_that_is_not_built_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "nothing.so")
    native.load_library.cache_clear()
    with pytest.raises(ArtifactError, match=r"nothing\.so is not there: install g\+\+"):
        native.load_library()
    (tmp_path / "nothing.so").write_text("no library")
    with pytest.raises(ArtifactError, match=r"nothing\.so: the library is damaged .* build it"):
        native.load_library()
