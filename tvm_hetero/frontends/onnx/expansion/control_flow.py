"""``If`` and ``Loop``: where their way is known before the model runs, it is taken.

An ``If`` on a constant (on shapes, on an input that is fixed) is its branch.  An ``If`` on data is
both branches and a choice between what they give:

    If(c, a(), b())   ->  Where(c, a(), b())

A ``Loop`` is unrolled step by step: each step's condition must come out constant.  Scan outputs are
stacked; of no steps they are empty (`no_steps`).

    Loop(M, c, v...)  ->  body(0, c, v...) , then Loop from step 1 on what that gave
"""

from __future__ import annotations

import math

import numpy as np
from onnx import GraphProto, TensorProto, TypeProto, helper

from tvm_hetero.frontends.onnx.expansion.loop_steps import count_nodes, scalar
from tvm_hetero.frontends.onnx.expansion.no_steps import stack_nothing
from tvm_hetero.frontends.onnx.expansion.registry import INTERNAL, rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.util.untrusted_names import printable


@rewrites("If")
def rewrite_if(r: Rewriting) -> bool:
    """Take the branch that a constant condition chooses, or both."""
    condition = r.array(r.inputs[0])
    if condition is not None:
        branch = r.attribute("then_branch" if bool(condition.all()) else "else_branch")
        r.splice(branch, [], r.outputs)
        return True
    r.note_choice(r.inputs[0])
    made = []
    for branch in (r.attribute("then_branch"), r.attribute("else_branch")):
        made.append([r.fresh(f"{name}_{branch.name}") for name in r.outputs])
        r.splice(branch, [], made[-1])
    r.add("Choose", [r.inputs[0], *made[0], *made[1]], r.outputs, INTERNAL)
    return True


@rewrites("Choose", domain=INTERNAL)
def choose(r: Rewriting) -> bool:
    """Choose between what two branches give, now that its types are known."""
    count, condition = len(r.outputs), r.inputs[0]
    if r.rank(condition):
        # A condition of shape [1] is one, too, but Where would broadcast it.
        condition = r.add("Reshape", [condition, r.constant([], np.int64)])
    for then, other, name in zip(
        r.inputs[1 : 1 + count], r.inputs[1 + count :], r.outputs, strict=True
    ):
        if not name:
            continue
        if r.sequence(then) is not None or r.dims(then) != r.dims(other):
            r.refuse(
                f"chooses by '{printable(r.inputs[0])}', which is known only when it runs, between "
                f"{_unlike(r, then, other)}. {r.how_to_fix(r.inputs[0])}"
            )
        r.add("Where", [condition, then, other], [name])
    return True


def _unlike(r: Rewriting, then: str, other: str) -> str:
    """Say what two values are between which nothing can choose."""
    if r.sequence(then) is not None:
        return "sequences"
    shapes = ("x".join(map(str, r.dims(name))) or "a scalar" for name in (then, other))
    return f"values of different shapes ({' and '.join(shapes)})"


@rewrites("Loop")
def rewrite_loop(r: Rewriting) -> bool:
    """Begin to unroll."""
    trips, condition = r.operand(0), r.operand(1)
    body = r.attribute("body")
    count = count_nodes(r.node, lambda name: _known(r, name), r.most_nodes)
    r.afford_nodes(count, "is unrolled; its steps")
    carried = len(body.input) - 2
    scans = len(body.output) - 1 - carried
    loop = r.node.name or next(filter(None, r.outputs), "loop")
    r.add(
        "LoopRest",
        [trips, condition, *r.inputs[2:]],
        r.outputs,
        INTERNAL,
        body=body,
        loop=loop,
        step=0,
        lengths=[0] * scans or None,
    )
    _name_step(r, loop, 0)
    return True


def _known(r: Rewriting, name: str) -> np.ndarray | None:
    """Return the one number that a value is, if it is a constant and one number."""
    known = r.is_shaped(name) and math.prod(r.dims(name)) == 1
    found = r.array(name) if known else None
    return None if found is None else scalar(found)


def _name_step(r: Rewriting, loop: str, step: int) -> None:
    """Name the rest of a loop by its step: of its name all names in the step are made.

    (A name made of the former step's, and so on, would be as long as the loop.)
    """
    r.nodes[-1].name = f"{loop}/step{step}"


@rewrites("LoopRest", domain=INTERNAL)
def unroll_step(r: Rewriting) -> bool:
    """Put the body of one step in front of the rest, or end the loop."""
    body, step = r.attribute("body"), int(r.attribute("step"))
    lengths = list(r.attribute("lengths") or [])
    carried = len(body.input) - 2
    states = r.inputs[2 : 2 + carried]
    scanned = r.inputs[2 + carried :]
    if not _goes_on(r, step):
        for state, name in zip(states, r.outputs, strict=False):
            if name:
                r.alias(state, name)
        if step:
            _stack(r, scanned, lengths, r.outputs[carried:])
        else:
            types = _lasting_types(r, body, states)
            stack_nothing(r, r.outputs[carried:], [0] * len(lengths), body, types)
        return True
    made = [r.fresh(f"step{step}_{output.name}") for output in body.output]
    condition = r.operand(1) or r.constant(True)
    r.splice(body, [r.constant(step, np.int64), condition, *states], made)
    pieces = made[1 + carried :]
    grown: list[str] = []
    start = 0
    for length, piece in zip(lengths, pieces, strict=True):
        grown += [*scanned[start : start + length], piece]
        start += length
    r.add(
        "LoopRest",
        [r.operand(0), made[0], *made[1 : 1 + carried], *grown],
        r.outputs,
        INTERNAL,
        body=body,
        loop=r.attribute("loop"),
        step=step + 1,
        lengths=[length + 1 for length in lengths] or None,
    )
    _name_step(r, r.attribute("loop"), step + 1)
    return True


def _goes_on(r: Rewriting, step: int) -> bool:
    """Whether there is a further step; refuses what cannot be told."""
    if r.operand(0) and step >= r.whole_number(0, "number of steps"):
        return False
    if not r.operand(1):
        return True
    condition = r.array(r.operand(1))
    if condition is None:
        r.refuse(
            f"goes on (at step {step}) as long as '{printable(r.operand(1))}' says so, which is "
            f"known only when it runs. {r.how_to_fix(r.operand(1))}"
        )
    return bool(condition.all())


def _lasting_types(r: Rewriting, body: GraphProto, states: list[str]) -> list[TypeProto]:
    """Return what holds of a body's inputs in each step: the types that it states for them itself.

    Where it states none, a carried value keeps its element type, and maybe not its shape.
    """
    found = []
    for value, name in zip(body.input, ["step", "condition", *states], strict=False):
        if value.type.WhichOneof("value"):
            found.append(value.type)
        elif len(found) < 2:
            kind = (TensorProto.INT64, TensorProto.BOOL)[len(found)]
            found.append(helper.make_tensor_type_proto(kind, []))
        else:
            found.append(helper.make_tensor_type_proto(r.element_type(name), None))
    return found


def _stack(r: Rewriting, scanned: list[str], lengths: list[int], names: list[str]) -> None:
    """Give the pieces of each scan output as one tensor."""
    start = 0
    for length, name in zip(lengths, names, strict=False):
        pieces = scanned[start : start + length]
        start += length
        if name:
            axis = r.constant([0], np.int64)
            unsqueezed = [r.add("Unsqueeze", [piece, axis]) for piece in pieces]
            r.add("Concat", unsqueezed, [name], axis=0)
