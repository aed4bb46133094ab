"""``If`` and ``Loop``: where their way is known before the model runs, it is taken.

An ``If`` on a constant (on shapes, on an input that is fixed) is its branch.  An ``If`` on data is
both branches and a choice between what they give:

    If(c, a(), b())   ->  Where(c, a(), b())

A ``Loop`` is unrolled step by step: each step's condition must come out constant.  Scan outputs are
stacked.

    Loop(M, c, v...)  ->  body(0, c, v...) , then Loop from step 1 on what that gave
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto

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
    r.afford_nodes(_nodes_of(r, r.node), "is unrolled; its steps")
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


def _nodes_of(r: Rewriting, node: NodeProto, hidden: frozenset[str] = frozenset()) -> int:
    """Return how many nodes are met for a node at least, loops in loops counted.

    A file of 200 bytes can ask for 2^62 steps, and takes half a minute to grow past the limit.
    Names that a loop around it has of its own are `hidden`: the graph's are others.
    """
    body = next((a.g for a in node.attribute if a.name == "body"), None)
    if node.op_type != "Loop" or body is None:
        return 1
    # The rest of the loop is a node of each step, too.
    steps = 0 if hidden & set(node.input[:2]) else _sure_steps(r, node, body)
    hidden |= {given.name for given in (*body.input, *body.initializer)}
    hidden |= {name for each in body.node for name in each.output}
    return 1 + steps * (1 + sum(_nodes_of(r, each, hidden) for each in body.node))


def _sure_steps(r: Rewriting, loop: NodeProto, body: GraphProto) -> int:
    """Return how many steps a loop has in any case; 0 where a condition may end it."""
    given = [*loop.input, "", ""]
    trips = r.array(given[0]) if given[0] else None
    begins = r.array(given[1]) if given[1] else np.array(True)
    if trips is None or trips.size != 1 or trips.dtype.kind not in "iu":
        return 0  # or refused where it is looked at
    if begins is None or not begins.all():
        return 0
    same = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity"}
    condition = body.output[0].name
    for _ in range(len(same)):
        condition = same.get(condition, condition)
    return max(0, int(trips.item())) if condition == body.input[1].name else 0


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
        _end(r, states, scanned, lengths)
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


def _end(r: Rewriting, states: list[str], scanned: list[str], lengths: list[int]) -> None:
    """Give the states as they are, and the scan outputs as one tensor each."""
    names = r.outputs
    for state, name in zip(states, names, strict=False):
        if name:
            r.alias(state, name)
    start = 0
    for length, name in zip(lengths, names[len(states) :], strict=False):
        pieces = scanned[start : start + length]
        start += length
        if not name:
            continue
        if not pieces:
            r.refuse("makes an output of no steps, whose shape is not known")
        axis = r.constant([0], np.int64)
        unsqueezed = [r.add("Unsqueeze", [piece, axis]) for piece in pieces]
        r.add("Concat", unsqueezed, [name], axis=0)
