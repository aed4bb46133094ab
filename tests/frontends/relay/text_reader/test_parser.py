"""What the printers of the old TVM write, and the five recorded programs do not have."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.frontends.relay.cases import normal, run
from tests.frontends.relay.json_reader.test_graph_file import Saved
from tests.frontends.relay.pace import promptly
from tvm_hetero import relay
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.check import relay_check
from tvm_hetero.frontends.relay.read import parse

X = normal(2, 4)
TYPE = "Tensor[(2, 4), float32]"
HEAD = '#[version = "0.0.5"]\n'


def main(body: str, head: str = HEAD, params: str = f"%x: {TYPE}") -> str:
    return f"{head}def @main({params}) {{\n  {body}\n}}\n"


def test_a_let_that_is_used_twice_stands_in_parentheses() -> None:
    text = main("%1 = (\n    let %y = negative(%x);\n    %0 = exp(%y);\n    add(%0, %y)\n  );\n"
                "  multiply(%1, %1)")  # fmt: skip
    (found,) = run(relay.frontend.from_text(text), {"x": X})
    np.testing.assert_allclose(found, (np.exp(-X) - X) ** 2, rtol=1e-5)


def test_numbers_that_are_not_finite() -> None:
    body = (
        "%0 = where(greater(%x, 0f), %x, -inff /* ty=float32 */);\n  "
        "%1 = clip(%0, a_min=-inff, a_max=0.5f);\n  (%1, minimum(%x, inff), add(%x, nanf))"
    )
    first, second, third = run(relay.frontend.from_text(main(body)), {"x": X})
    np.testing.assert_array_equal(first, np.where(X > 0, np.minimum(X, 0.5), -np.inf))
    np.testing.assert_array_equal(second, X)
    assert np.isnan(third).all()
    with pytest.raises(ModelError, match="does not fit"):
        parse(main("add(%x, 1e99999f)"), "x")


def test_the_parts_that_an_operator_makes_are_returned_at_once() -> None:
    module = relay.frontend.from_text(main("split(%x, indices_or_sections=2, axis=1)"))
    first, second = run(module, {"x": X})
    np.testing.assert_array_equal(first, X[:, :2])
    np.testing.assert_array_equal(second, X[:, 2:])


@pytest.mark.parametrize("name", ["x:0", "a/b/kernel:0", "input.1", "aten::w_0.weight"])
def test_names_of_other_frameworks(name: str) -> None:
    text = main(f"%0 = nn.relu(%{name});\n  add(%0, %{name})", params=f"%{name}: {TYPE}")
    module = relay.frontend.from_text(text)
    assert list(module["main"].attrs["hetero_input_names"]) == [name]


def test_the_text_of_tvm_0_6() -> None:
    g = Saved()
    listed = g.add("Array", data=[g.constant(X)])
    metadata = g.add("StrMap", data=[listed])
    g.nodes[metadata]["keys"] = ["relay.Constant"]
    text = main("add(%x, meta[relay.Constant][0])", "v0.0.4\n") + "\n/* meta data */\n"
    module = relay.frontend.from_text(text + g.text(metadata, "0.6.0"))
    np.testing.assert_allclose(run(module, {"x": X})[0], 2 * X)


@pytest.mark.parametrize(
    ("head", "tail", "turned"),
    [("v0.0.4\n", "", True), (HEAD, ", transpose_a=False", False), (HEAD, ", transpose_b=1", True)],
)
def test_products_whose_shapes_do_not_tell(head: str, tail: str, turned: bool) -> None:
    x, y = normal(2, 3, 3), normal(2, 3, 3, seed=1)
    params = ", ".join(f"%{name}: Tensor[(2, 3, 3), float32]" for name in "xy")
    module = relay.frontend.from_text(main(f"nn.batch_matmul(%x, %y{tail})", head, params))
    expected = x @ (y.transpose(0, 2, 1) if turned else y)
    np.testing.assert_allclose(run(module, {"x": x, "y": y})[0], expected, rtol=1e-4, atol=1e-5)


def test_parameters_with_comments_are_of_tvm_0_8_or_newer() -> None:
    x, y = normal(2, 3, 3), normal(2, 3, 3, seed=1)
    kind = "Tensor[(2, 3, 3), float32]"
    params = ", ".join(f"%{name}: {kind} /* ty={kind} span=a:1:1 */" for name in "xy")
    module = relay.frontend.from_text(main("nn.batch_matmul(%x, %y)", params=params))
    np.testing.assert_allclose(run(module, {"x": x, "y": y})[0], x @ y, rtol=1e-4, atol=1e-5)


def test_a_product_of_which_nothing_tells_is_refused() -> None:
    params = ", ".join(f"%{name}: Tensor[(2, 3, 3), float32]" for name in "xy")
    with pytest.raises(ModelError, match="transpose_b=True or transpose_b=False"):
        relay.frontend.from_text(main("nn.batch_matmul(%x, %y)", params=params))


def test_parameters_of_one_name_are_one_input() -> None:
    """As `relay.testing.lstm` makes them: a variable ``data`` for each step."""
    g = Saved()
    first, second = g.var("data", g.type(2, 4)), g.var("data", g.type(2, 4))
    text = g.text(g.function([first, second], g.call("add", [first, second])))
    module = relay.frontend.from_json(text)
    assert list(module["main"].attrs["hetero_input_names"]) == ["data"]
    np.testing.assert_allclose(run(module, {"data": X})[0], 2 * X)
    other = g.var("data", g.type(4))
    with pytest.raises(ModelError, match="two parameters are called 'data'"):
        relay.frontend.from_json(g.text(g.function([first, other], first)))


def test_relay_check_lists_what_stands_behind_the_unknown() -> None:
    """`foo.b` has no type: what reads it cannot be emitted, but its name is known."""
    text = main("%0 = foo.a(%x);\n  %1 = foo.b(%0);\n  nn.relu(foo.c(%1))")
    assert [p.split("'")[1] for p in relay_check(text).problems] == ["foo.a", "foo.b", "foo.c"]


def test_relay_check_of_control_flow() -> None:
    """What only functions have that are never called stands in nobody's way."""
    g = Saved()
    x = g.var("x", g.type(2, 4))
    branch = g.add("relay.If", cond=x, true_branch=x, false_branch=x)
    names = [g.add("GlobalVar", name_hint=g.add("runtime.String", text=n)) for n in ("main", "map")]
    unused = g.function([g.var("l", 0)], branch)
    used = g.function([x], g.call("nn.relu", [x]))
    functions = g.add("Map", data=[names[0], used, names[1], unused])
    assert not relay_check(g.text(g.add("IRModule", functions=functions, attrs=0))).problems
    both = g.add("relay.Tuple", fields=g.add("Array", data=[branch, g.call("foo.a", [x])]))
    text = main("%0 = if (%c) {\n    %x\n  } else {\n    exp(%x)\n  };\n  foo.a(%0)",
                params=f"%x: {TYPE}, %c: bool")  # fmt: skip
    for program in (g.text(g.function([x], both)), text):
        problems = relay_check(program).problems
        assert sorted(p.split("'")[1] for p in problems) == ["foo.a", "if"]
    with pytest.raises(ModelError, match=r"line 3.*'if' is not supported"):
        relay.frontend.from_text(text)


@pytest.mark.parametrize(
    ("kind", "returned"),
    [(f"({TYPE},)", TYPE), (TYPE, "Tensor[(9, 9), float32]"), (TYPE, f"({TYPE}, {TYPE})")],
)
def test_types_that_are_not_so(kind: str, returned: str) -> None:
    text = f"{HEAD}def @main(%x: {TYPE}) -> {returned} {{\n  exp(%x) /* ty={kind} */\n}}\n"
    with pytest.raises(ModelError, match="the file says that"):
        relay.frontend.from_text(text)


def laughs(kind: str) -> str:
    """Sixty values, each of which holds the next twice."""
    g = Saved()
    x = g.var("x", g.type(2, 4))
    each = g.type(2, 4) if kind == "TupleType" else g.ints(1)
    for _ in range(60):
        held = g.add("Array", data=[each, each])
        each = g.add("TupleType", fields=held) if kind == "TupleType" else held
        if kind != "Array" and kind != "TupleType":
            g.nodes[held]["type_key"] = "Map"
            if kind == "StrMap":
                g.nodes[held]["keys"] = ["a", "b"]
    if kind == "TupleType":
        return g.text(g.function([g.var("t", each)], x))
    attrs = g.add("relay.attrs.ReshapeAttrs", newshape=each)
    return g.text(g.function([x], g.call("reshape", [x], attrs)))


HOSTILE = {
    "lists of lists": lambda: laughs("Array"),
    "types of types": lambda: laughs("TupleType"),
    "maps of maps": lambda: laughs("StrMap"),
    "maps as keys": lambda: laughs("Map"),
    "fields of fields": lambda: main("%x" + ".1" * 200_000),
    "lines": lambda: main("\n" * 20_000_000),
    "comments": lambda: main("/**/" * 5_000_000),
    "an extent below none": lambda: main("tile(%x, reps=[-1, 2])"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_small_files_that_would_grow(case: str) -> None:
    text = HOSTILE[case]()

    def refuse() -> None:
        with pytest.raises(ModelError):
            relay.frontend.from_json(text)

    promptly(refuse)


def test_an_array_that_many_constants_share_is_read_once() -> None:
    g = Saved()
    first = g.constant(X)
    again = g.add("relay.Constant", span=0)
    g.nodes[again]["attrs"]["data"] = g.nodes[first]["attrs"]["data"]
    body = g.add("relay.Tuple", fields=g.add("Array", data=[first, again]))
    program = parse(json.dumps(json.loads(g.text(g.function([], body)))), "x")
    one, two = program.functions["main"].body.fields  # type: ignore[union-attr]
    assert one is two
