"""Programs of kernels, spread over steps and workers in any way, against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.executor.kernel_plans import (
    BYTES,
    REFERENCE,
    SIZE,
    KernelPlan,
    aligned,
    call,
    view,
)

VALUES = np.arange(SIZE, dtype="float32")

# A program: for each call its kernel, its operands (numbers of values: inputs first, then results),
# whether it begins a new step, and that step's worker.
Program = list[tuple[str, tuple[int, int], bool, int]]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    program: Program = []
    for number in range(draw(st.integers(1, 12))):
        kernel = draw(st.sampled_from(["add", "twice", "negate"]))
        operands = draw(st.tuples(*[st.integers(0, number + 1)] * 2))
        program.append((kernel, operands, draw(st.booleans()), draw(st.integers(0, 1))))
    return program


def planned(program: Program) -> KernelPlan:
    """A plan in which what other steps read is an out, and all else shares scratch."""
    step_of = [-1, -1]
    for _, _, new_step, _ in program:
        step_of.append(max(step_of[-1], 0) + (new_step and step_of[-1] >= 0))
    last = len(step_of) - 1
    crossing = {
        operand
        for number, (_, operands, _, _) in enumerate(program, 2)
        for operand in operands
        if step_of[operand] not in (-1, step_of[number])
    } | {last}
    plan = KernelPlan(workers=2)
    slots = {0: plan.vector("x"), 1: plan.vector("y")}
    for step in range(step_of[last] + 1):
        mine = [number for number in range(2, last + 1) if step_of[number] == step]
        _add_step(plan, program, mine, slots, crossing)
    return plan.output(slots[last])


def _add_step(
    plan: KernelPlan, program: Program, mine: list[int], slots: dict[int, int], crossing: set[int]
) -> None:
    operands = {number: program[number - 2][1] for number in mine}
    ins = sorted({o for number in mine for o in operands[number]} - set(mine))
    outs = [number for number in mine if number in crossing]
    last_read = {o: number for number in mine for o in operands[number]}
    places = {value: ("in", k) for k, value in enumerate(ins)}
    places |= {value: ("out", k) for k, value in enumerate(outs)}
    free: list[int] = []
    scratch = 0
    calls = []
    for number in mine:
        if number not in places:
            if not free:
                free.append(scratch)
                scratch += BYTES
            places[number] = ("scratch", free.pop())
        kernel = program[number - 2][0]
        read = operands[number][: 2 if kernel == "add" else 1]
        args = [view(*places[value]) for value in (*read, number)]
        calls.append(call(kernel, *args, task=f"{number}"))
        dead = [v for v in {*mine} if v <= number and last_read.get(v, v) <= number]
        free = sorted({*free, *(places[v][1] for v in dead if places[v][0] == "scratch")})
    worker = program[mine[0] - 2][3]
    filled = plan.kernels(
        [slots[v] for v in ins], calls, worker=worker, outs=len(outs), scratch=scratch
    )
    slots.update(zip(outs, filled, strict=True))


@given(programs())
@settings(max_examples=draws(25), deadline=None)
def test_any_program_computes_what_numpy_does(program: Program) -> None:
    values = [VALUES, VALUES - 7]
    for kernel, operands, _, _ in program:
        read = operands[: 2 if kernel == "add" else 1]
        values.append(REFERENCE[kernel](*[values[o] for o in read]))
    plan = planned(program)
    executor = plan.create()
    executor.set_input("x", aligned(values[0]))
    executor.set_input("y", aligned(values[1]))
    executor.run_repeated(3)
    np.testing.assert_array_equal(executor.get_output("y").numpy(), values[-1])
    executor.run_stream(7)
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), values[-1])
    assert executor.allocations() == 0
