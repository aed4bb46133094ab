"""Kernels do not look at their arguments: a plan that does not fit them is refused before it runs.

Python and C++ read the same artifacts, whose hashes are made to fit, and say the same of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tvm_hetero as th
from tests.cpp.cpp_build import call, example_program
from tests.fuzz.artifacts import seal
from tests.models import placed
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import ArtifactError
from tvm_hetero.passes.split_segments import split_segments

Row = dict[str, Any]
PLAN = "partition/plan.json"
CONV = r"steps\[\d\] 'little/seg1': calls\[1\] '1\.conv2d1': kernel 'conv2d1' of 'little'"
POOL = r"steps\[\d\] 'big/seg0': calls\[1\] '2\.max_pool2d': kernel 'max_pool2d' of 'big'"


def change(folder: Path, name: str, how: Callable[[Row], object]) -> None:
    document = json.loads((folder / name).read_text())
    how(document)
    (folder / name).write_text(json.dumps(document))
    seal(folder)


def call_of(plan: Row, task: str) -> Row:
    calls = (each for step in plan["steps"] for each in step.get("calls", ()))
    [found] = [each for each in calls if each["task"] == task]
    return found


def said(folder: Path) -> tuple[str, str]:
    """Why Python and C++ refuse an artifact."""
    with pytest.raises(ArtifactError) as refused:
        th.load(folder)
    done = call(example_program(), folder)
    assert done.returncode == 1, f"status {done.returncode}: {done.stderr}"
    return str(refused.value), done.stderr


def doubled(plan: Row) -> None:
    args = call_of(plan, "1.conv2d1")["args"]
    args.insert(1, args[1])


def reshaped(plan: Row) -> None:
    """The bytes are as many, which is all that the checks of memory look at."""
    call_of(plan, "1.conv2d1")["args"][0]["shape"] = [1, 8, 16, 8]


def also_written(plan: Row) -> None:
    """What an earlier call has written may be written again, as far as memory is concerned."""
    call_of(plan, "2.max_pool2d")["written"] = 2


X, W = r"float32\[1, 16, 8, 8\]", r"float32\[2, 16, 1, 1, 8\]"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (doubled, f"{CONV} is given 4 arguments, expected 3: args\\[2\\] is {W}, expected {X}"),
        (
            lambda plan: call_of(plan, "1.conv2d1")["args"].pop(1),
            f"{CONV} is given 2 arguments, expected 3: args\\[1\\] is {X}, expected {W}",
        ),
        (
            reshaped,
            f"{CONV} is given 3 arguments, expected 3: "
            f"args\\[0\\] is float32\\[1, 8, 16, 8\\], expected {X}",
        ),
        (
            lambda plan: call_of(plan, "1.conv2d1")["args"][0].update(dtype="int32"),
            f"{CONV} is given 3 arguments, expected 3: "
            f"args\\[0\\] is int32\\[1, 16, 8, 8\\], expected {X}",
        ),
        (also_written, f"{POOL}: written is 2, expected 1"),
        (
            lambda plan: call_of(plan, "2.max_pool2d").update(kernel="max_pool2d1"),
            r"'2\.max_pool2d': nothing says what kernel 'max_pool2d1' of 'big' takes",
        ),
    ],
)
def test_a_call_that_does_not_fit_its_kernel_is_refused(copied, damage, message):
    change(copied, PLAN, damage)
    for text in said(copied):
        assert_matches(message, text)


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(AssertionError, match=pattern):
        raise AssertionError(text)


def row_of(document: Row, kernel: str, device: str) -> Row:
    rows = document["takes"]
    [found] = [row for row in rows if (row["kernel"], row["device"]) == (kernel, device)]
    return found


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda d: d["takes"].remove(row_of(d, "conv2d1", "little")),
            "nothing says what kernel 'conv2d1' of 'little' takes",
        ),
        (lambda d: d["takes"].append(d["takes"][0]), "twice"),
        (lambda d: d.update(takes={}), "takes"),
        (lambda d: row_of(d, "conv2d1", "little").update(written="1"), "written"),
        (lambda d: row_of(d, "conv2d1", "little")["args"][0].pop("dtype"), "dtype"),
        (lambda d: row_of(d, "conv2d1", "little").update(more=1), "more"),
        (lambda d: d.update(format="tvm-hetero/kernels/9"), "tvm-hetero/kernels/1"),
    ],
)
def test_what_kernels_take_is_read_strictly(copied, damage, message):
    change(copied, "kernels.json", damage)
    for text in said(copied):
        assert message in text


def test_an_artifact_that_does_not_say_what_its_kernels_take_is_refused(copied):
    change(copied, "kernels.json", lambda document: document.pop("takes"))
    for text in said(copied):
        assert "takes" in text
    change(copied, "manifest.json", lambda document: document["files"].pop("kernels.json"))
    for text in said(copied):
        assert "kernels.json" in text


def test_plans_give_kernels_what_their_functions_have(executable: Executable) -> None:
    """What the artifact says that kernels take is what was compiled."""
    split = split_segments(placed(1))
    functions = {
        (g.name_hint, executable.problem.platform.names[device]): func
        for device, module in split.modules.items()
        for g, func in module.functions.items()
    }
    plan = executable.variants["partition"].plan
    seen = 0
    for step in plan.steps:
        for each in step.calls:
            func = functions[each.kernel, plan.worker_of_step(step).name]
            types = [parameter.ty for parameter in func.params]
            assert [(tuple(map(int, ty.shape)), str(ty.dtype)) for ty in types] == [
                (arg.type.shape, arg.type.dtype) for arg in each.args
            ]
            seen += 1
    assert seen == 10


def test_plans_that_give_a_kernel_different_things_are_not_saved(executable, tmp_path):
    variant = executable.variants["partition"]
    step = next(s for s in variant.plan.steps if s.name == "big/seg0")
    first = step.calls[0]
    other = replace(step, calls=(*step.calls, replace(first, args=first.args[1:])))
    steps = tuple(other if s is step else s for s in variant.plan.steps)
    variants = {"partition": replace(variant, plan=replace(variant.plan, steps=steps))}
    with pytest.raises(ArtifactError, match="is given 2 arguments, expected 3"):
        replace(executable, variants=variants).save(tmp_path / "net.hetero")
    assert not (tmp_path / "net.hetero").exists()
