"""The largest files that are taken, put together to cost the most: an answer within a second."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.frontends.relay.json_reader.test_graph_file import Saved
from tests.frontends.relay.pace import promptly
from tests.frontends.relay.text_reader.test_parser import HEAD, TYPE, main
from tvm_hetero import relay
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS
from tvm_hetero.frontends.relay.importer import make_identifiers
from tvm_hetero.util.untrusted_names import identifier

NODES, VALUES = DEFAULT_LIMITS.nodes - 100, DEFAULT_LIMITS.values - 100


def nested(each: Callable[[Saved, int, int], int], nodes: int, innermost: str = "") -> str:
    """Values within each other, `nodes` objects for one, as many as there may be."""
    g = Saved()
    value = x = g.var("x", g.type(2, 4))
    value = g.add(innermost) if innermost else value
    for _ in range(NODES // nodes):
        value = each(g, value, x)
    return g.text(g.function([x], value))


def tuples(g: Saved, value: int, x: int) -> int:
    return g.add("relay.Tuple", fields=g.add("Array", data=[value]))


def items(g: Saved, value: int, x: int) -> int:
    return g.add("relay.TupleGetItem", tuple_value=value, index=0)


def functions(g: Saved, value: int, x: int) -> int:
    return g.function([], value)


def lets(g: Saved, value: int, x: int) -> int:
    return g.add("relay.Let", var=g.add("relay.Var", vid=0, type_annotation=0), value=x, body=value)


def calls(g: Saved, value: int, x: int) -> int:
    return g.add("relay.Call", op=value, args=0, attrs=0)


def kinds(g: Saved, value: int, x: int) -> int:
    kind = g.add("relay.TensorType", dtype="float32", shape=0)
    var = g.add("relay.Var", vid=0, type_annotation=kind)
    return g.add("relay.Let", var=var, value=x, body=value)


def shared(many: int, long: int) -> str:
    """Tuples that all name the same long list."""
    g = Saved()
    x = g.var("x", g.type(2, 4))
    listed = g.add("Array", data=[x] * long)
    each = [g.add("relay.Tuple", fields=listed) for _ in range(many)]
    return g.text(g.function([x], g.add("relay.Tuple", fields=g.add("Array", data=each))))


def ladder() -> str:
    """A function of many tuples that is called many times."""
    g = Saved()
    x, y = g.var("x", g.type(2, 4)), g.var("y", g.type(2, 4))
    inner = y
    for _ in range(8_000):
        inner = g.add("relay.Tuple", fields=g.add("Array", data=[inner]))
    function, args = g.function([y], inner), g.add("Array", data=[x])
    each = [g.add("relay.Call", op=function, args=args, attrs=0) for _ in range(8_000)]
    return g.text(g.function([x], g.add("relay.Tuple", fields=g.add("Array", data=each))))


def again() -> str:
    """A chain of lets of which each field of a tuple is made."""
    g = Saved()
    x = value = g.var("x", g.type(2, 4))
    for _ in range(9_000):
        value = lets(g, value, x)
    fields = g.add("Array", data=[value] * 30_000)
    return g.text(g.function([x], g.add("relay.Tuple", fields=fields)))


def many_fields() -> str:
    g = Saved()
    x = g.var("x", g.type(2, 4))
    attrs = g.add("relay.attrs.TakeAttrs", **{f"a{i}": 0 for i in range(VALUES // 2 - 300)})
    return g.text(g.function([x], g.call("exp", [x], attrs)))


def marked() -> str:
    """Annotations of one large tuple."""
    g = Saved()
    x = g.var("x", g.type(2, 4))
    value = g.add("relay.Tuple", fields=g.add("Array", data=[x] * 9_000))
    device = g.add("VirtualDevice", device_type_int=2, virtual_device_id=1)
    attrs = g.add("relay.attrs.OnDeviceAttrs", virtual_device=device)
    name = g.add("Op", text="on_device")
    for _ in range(9_000):
        value = g.add("relay.Call", op=name, args=g.add("Array", data=[value]), attrs=attrs)
    return g.text(g.function([x], value))


WORST: dict[str, Callable[[], str]] = {
    "tuples": lambda: nested(tuples, 2),
    "items": lambda: nested(items, 1),
    "functions": lambda: nested(functions, 3),
    "lets": lambda: nested(lets, 2, "relay.If"),
    "types": lambda: nested(kinds, 3, "relay.If"),
    "calls": lambda: nested(calls, 2),
    "numbers": lambda: json.dumps({"root": 1, "nodes": [], "b64ndarrays": [1.5] * VALUES}),
    "objects": lambda: json.dumps({"root": 1, "nodes": [], "b64ndarrays": [{}] * (VALUES // 2)}),
    "more numbers": lambda: json.dumps({"root": 1, "nodes": [1.5] * 3_000_000}),
    "one list in many tuples": lambda: shared(4_000, 40_000),
    "calls of a large function": ladder,
    "lets that are used often": again,
    "attributes of many fields": many_fields,
    "annotations of a large tuple": marked,
    "words": lambda: main("(" + "%x, " * (DEFAULT_LIMITS.tokens // 2 - 20) + "@f)"),
    "words beyond": lambda: main("(" + "%x, " * 150_000 + "@f)"),
    "calls in text": lambda: main("".join(f"%{i} = exp(%x, 1);\n" for i in range(11_500)) + "%0"),
    "types in text": lambda: main(f"%x /* ty=({'(), ' * 9000}) */;\n" * 200),
    "blanks": lambda: HEAD + " " * (DEFAULT_LIMITS.text_bytes - 100),
}


def refuse(text: str) -> None:
    with pytest.raises(ModelError):
        relay.frontend.from_json(text)


@pytest.mark.parametrize("case", WORST)
def test_the_worst_file_is_refused_promptly(case: str) -> None:
    text = WORST[case]()
    promptly(lambda: refuse(text))


def test_many_parameters_are_named_in_linear_time() -> None:
    names = [f"a{sign}{i % 7}" for i in range(3000) for sign in "_/:"]
    one_by_one: list[str] = []
    for name in names[:400]:
        one_by_one.append(identifier(name, one_by_one))
    assert make_identifiers(names[:400]) == one_by_one
    assert len(set(make_identifiers(names))) == len(names)
    promptly(lambda: make_identifiers("/" * (1 + i % 50) for i in range(30_000)))


def test_an_unknown_name_among_many_is_an_error_promptly() -> None:
    g = Saved()
    kind = g.type(2, 4)
    params = [g.var(f"parameter_{i}", kind) for i in range(15_000)]
    text = g.text(g.function(params, params[0]))

    def misspell() -> None:
        with pytest.raises(UsageError, match="is no parameter"):
            relay.frontend.from_json(text, {"parametre_14999": 0.0})

    promptly(misspell)


def test_a_program_of_thousands_of_calls_is_within_the_limits() -> None:
    """Each call with types, a list of arguments and attributes of its own, as `save_json` has."""
    g = Saved()
    x = value = g.var("x", g.type(2, 4))
    for _ in range(2_000):
        attrs = g.add("relay.attrs.LeakyReluAttrs", alpha="0.5")
        pads = g.ints(0, 0, 1, 1)
        kind = g.type(2, 4)
        for _ in range(7):
            g.add("IntImm", dtype="int64", value=1)
        assert pads
        value = g.call("nn.leaky_relu", [value], attrs, kind)
    assert len(g.nodes) > 35_000
    from tvm_hetero.frontends.relay.flatten import flatten
    from tvm_hetero.frontends.relay.read import parse

    assert len(flatten(parse(g.text(g.function([x], value)), "x")).steps) == 2_000
    lines = "".join(f"  %{i + 1} = add(%{i}, 1f) /* ty={TYPE} */;\n" for i in range(5_000))
    text = main("%0 = negative(%x);\n" + lines + "  %5000")
    assert len(flatten(parse(text, "x")).steps) == 5_001
