"""Saved Relay programs as files: every way of writing them, and files that nobody vouches for."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.invoke import tvm_hetero
from tests.draws import draws
from tests.frontends.relay.cases import normal, run
from tests.frontends.relay.models import DATA, recorded
from tests.frontends.relay.numpy_reference import conv_transpose
from tvm_hetero import relay
from tvm_hetero.errors import HeteroError, ModelError
from tvm_hetero.frontends.relay import RelayLimits, load_params
from tvm_hetero.frontends.relay.check import relay_check
from tvm_hetero.frontends.relay.core.program import (
    Constant,
    Function,
    RelayCall,
    RelayDevice,
    RelayProgram,
)
from tvm_hetero.frontends.relay.flatten import flatten
from tvm_hetero.frontends.relay.operators.reshape_codes import new_shape
from tvm_hetero.frontends.relay.read import parse, read

JSON = (DATA / "mlp.relay.json").read_text()
TEXT = (DATA / "mlp.relay.txt").read_text()


def array_bytes(array: np.ndarray, *, size: int | None = None) -> bytes:
    """An array as the old TVM wrote it."""
    codes = {"i": 0, "u": 1, "f": 2}
    head = struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim)
    kind = struct.pack("<BBH", codes[array.dtype.kind], 8 * array.dtype.itemsize, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return (
        head + kind + shape + struct.pack("<q", array.nbytes if size is None else size)
        + array.tobytes()
    )  # fmt: skip


def params_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """A ``.params`` file of some arrays."""
    names = b"".join(struct.pack("<Q", len(n)) + n.encode() for n in arrays)
    count = struct.pack("<Q", len(arrays))
    head = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)
    return head + count + names + count + b"".join(map(array_bytes, arrays.values()))


class Saved:
    """A graph that is put together node by node, as `save_json` numbers them."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.arrays: list[str] = []

    def add(self, kind: str, *, data: Any = None, text: str | None = None, **fields: Any) -> int:
        node: dict[str, Any] = {"type_key": kind}
        if text is not None:
            node["repr_str"] = text
        if fields:
            node["attrs"] = {k: str(v) for k, v in fields.items()}
        if data is not None:
            node["data"] = data
        self.nodes.append(node)
        return len(self.nodes) - 1

    def ints(self, *values: int) -> int:
        return self.add(
            "Array", data=[self.add("IntImm", dtype="int32", span=0, value=v) for v in values]
        )

    def type(self, *shape: int, dtype: str = "float32") -> int:
        return self.add("relay.TensorType", dtype=dtype, shape=self.ints(*shape), span=0)

    def var(self, name: str, kind: int) -> int:
        identity = self.add("relay.Id", name_hint=self.add("runtime.String", text=name))
        return self.add("relay.Var", vid=identity, type_annotation=kind, _checked_type_=0)

    def constant(self, array: np.ndarray) -> int:
        self.arrays.append(base64.b64encode(array_bytes(array)).decode())
        made = self.add("relay.Constant", span=0)
        self.nodes[made]["attrs"]["data"] = str(len(self.arrays) - 1)
        return made

    def call(self, name: str, args: list[int], attrs: int = 0, kind: int = 0) -> int:
        return self.add(
            "relay.Call", op=self.add("Op", text=name), args=self.add("Array", data=args),
            attrs=attrs, type_args=0, _checked_type_=kind,
        )  # fmt: skip

    def function(self, params: list[int], body: int) -> int:
        return self.add(
            "relay.Function", params=self.add("Array", data=params), body=body, ret_type=0,
            type_params=0, attrs=0,
        )  # fmt: skip

    def text(self, root: int, version: str = "0.17.0") -> str:
        return json.dumps(
            {"root": root, "nodes": self.nodes, "b64ndarrays": self.arrays,
             "attrs": {"tvm_version": version}}
        )  # fmt: skip


def test_a_program_with_constants_and_objects_as_attributes() -> None:
    g = Saved()
    x = g.var("x", g.type(2, 3))
    weight = normal(4, 3)
    attrs = g.add("relay.attrs.DenseAttrs", units=g.add("IntImm", dtype="int64", value=4),
                  out_dtype="")  # fmt: skip
    product = g.call("nn.dense", [x, g.constant(weight)], attrs, g.type(2, 4))
    taken = g.add("relay.attrs.TakeAttrs", axis=g.add("IntImm", dtype="int32", value=1),
                  mode=g.add("runtime.String", text="wrap"), batch_dims=g.ints())  # fmt: skip
    g.nodes[taken]["attrs"]["batch_dims"] = str(g.add("IntImm", dtype="int32", value=0))
    places = g.constant(np.array([1, -1], "int32"))
    root = g.function([x], g.call("take", [product, places], taken))
    value = normal(2, 3, seed=1)
    (found,) = run(relay.frontend.from_json(g.text(root)), {"x": value})
    np.testing.assert_allclose(found, (value @ weight.T)[:, [1, -1]], rtol=1e-5)


def test_a_module_of_several_functions_closures_and_lets() -> None:
    g = Saved()
    kind = g.type(1, 4)
    x, p, q = (g.var(name, kind) for name in "xpq")
    twice = g.function([p], g.call("add", [p, p]))
    name = g.add("GlobalVar", name_hint=g.add("runtime.String", text="twice"), _checked_type_=0)
    bound = g.var("f", 0)
    doubled = g.add("relay.Call", op=name, args=g.add("Array", data=[x]), attrs=0)
    called = g.add("relay.Call", op=bound, args=g.add("Array", data=[doubled]), attrs=0)
    pair = g.add("relay.Tuple", fields=g.add("Array", data=[called, doubled]))
    # The closure reads `x`, which is bound outside of it.
    closure = g.function([q], g.call("multiply", [q, x]))
    item = g.add("relay.TupleGetItem", tuple_value=pair, index=0)
    body = g.add("relay.Let", var=bound, value=closure, body=g.call("exp", [item]))
    main = g.add("GlobalVar", name_hint=g.add("runtime.String", text="main"), _checked_type_=0)
    functions = g.add("Map", data=[main, g.function([x], body), name, twice])
    root = g.add("IRModule", functions=functions, attrs=0)
    value = normal(1, 4)
    (found,) = run(relay.frontend.from_json(g.text(root)), {"x": value})
    np.testing.assert_allclose(found, np.exp(2 * value * value), rtol=1e-5)


@pytest.mark.parametrize(("version", "turned"), [("0.7.0", False), ("0.17.0", True)])
def test_weights_of_transposed_convolutions_by_version(version: str, turned: bool) -> None:
    """Before 0.9 what is called ``OIHW`` there was stored ``IOHW``; the shapes may not tell."""
    g = Saved()
    x = g.var("x", g.type(1, 3, 4, 4))
    weight = normal(3, 3, 2, 2)
    attrs = g.add(
        "relay.attrs.Conv2DTransposeAttrs", channels=g.add("IntImm", value=3), groups=1,
        kernel_size=g.ints(2, 2), strides=g.ints(1, 1), padding=g.ints(0, 0),
        output_padding=g.ints(0, 0), dilation=g.ints(1, 1), data_layout="NCHW",
        kernel_layout="OIHW", out_layout="", out_dtype="",
    )  # fmt: skip
    root = g.function([x], g.call("nn.conv2d_transpose", [x, g.constant(weight)], attrs))
    value = normal(1, 3, 4, 4, seed=1)
    (found,) = run(relay.frontend.from_json(g.text(root, version)), {"x": value})
    stored = weight.transpose(1, 0, 2, 3) if turned else weight
    expected = conv_transpose(value, stored, [1, 1], [0] * 4, [0, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_control_flow_is_listed() -> None:
    g = Saved()
    x = g.var("x", g.type(2))
    branch = g.add("relay.If", cond=x, true_branch=x, false_branch=x)
    text = g.text(g.function([x], g.call("exp", [branch])))
    assert relay_check(text).problems == (f"node {branch}: 'if' is not supported",)
    with pytest.raises(ModelError, match="'if' is not supported"):
        relay.frontend.from_json(text)


def test_plain_and_referred_values_of_one_spelling_are_told_apart() -> None:
    """``axis: "1"`` is an axis in one class of attributes and a node in another."""
    g = Saved()
    one = g.add("IntImm", dtype="int32", value=7)  # node 1
    assert one == 1
    x = g.var("x", g.type(2, 3))
    plain = g.add("relay.attrs.SoftmaxAttrs", axis=1)
    stacked = g.add("relay.attrs.ExpandDimsAttrs", axis=1, num_newaxis=1)
    deep = g.add("relay.attrs.RepeatAttrs", repeats=g.add("IntImm", value=2), axis="null")
    soft = g.call("nn.softmax", [x], plain)
    root = g.function([x], g.call("repeat", [g.call("expand_dims", [soft], stacked)], deep))
    (call,) = [parse(g.text(root), "test").functions["main"].body]
    assert isinstance(call, RelayCall)
    assert call.attributes == {"repeats": 2, "axis": None}
    inner = call.args[0]
    assert isinstance(inner, RelayCall) and inner.attributes == {"axis": 1, "num_newaxis": 1}


@pytest.mark.parametrize("half", ["\\ud800", "\\udfff.w", "x\\uD83D"])
def test_half_a_surrogate_pair_is_no_name(half: str) -> None:
    """It was imported, and no attribute could hold it: seed 1795855819 of the harness."""
    text = JSON.replace("fc1_weight", half)
    assert text != JSON
    with pytest.raises(ModelError, match="half a surrogate pair"):
        relay.frontend.from_json(text)


def old(text: str) -> str:
    """A file as TVM 0.6 wrote it: other names, plain texts, ``global_key``."""
    document = json.loads(text)
    nodes = document["nodes"]
    renamed = {"IRModule": "relay.Module", "GlobalVar": "relay.GlobalVar", "Op": "relay.Op",
               "FuncType": "relay.FuncType", "TupleType": "relay.TupleType"}  # fmt: skip
    for node in nodes:
        kind = node.pop("type_key")
        node["node_type"] = renamed.get(kind, kind)
        if kind == "Op":
            node["global_key"] = node.pop("repr_str")
        if kind in ("relay.Id", "GlobalVar"):
            index = int(node["attrs"]["name_hint"])
            node["attrs"]["name_hint"] = nodes[index]["repr_str"]
        if kind == "relay.Function":
            node["attrs"]["attrs"] = "0"
    del document["attrs"]
    document["tvm_version"] = "0.6.1"
    return json.dumps(document)


def test_the_older_layout() -> None:
    new, before = parse(JSON, "new"), parse(old(JSON), "old")
    assert (new.version, before.version) == ("0.17.dev0", "0.6.1")
    steps, earlier = flatten(new).steps, flatten(before).steps
    assert [s.operator for s in steps] == [s.operator for s in earlier]
    assert [s.attributes for s in steps] == [s.attributes for s in earlier]
    assert [s.type for s in steps] == [s.type for s in earlier]


def test_on_device_of_every_version() -> None:
    g = Saved()
    x = g.var("x", g.type(2))
    device = g.add("VirtualDevice", device_type_int=2, virtual_device_id=1, target=0,
                   memory_scope=0)  # fmt: skip
    newer = g.add("relay.attrs.OnDeviceAttrs", virtual_device=device, constrain_body=1,
                  constrain_result=0)  # fmt: skip
    older = g.add("relay.attrs.OnDeviceAttrs", device_type=1)
    a, b = g.call("exp", [x]), g.call("log", [x])
    both = g.call("add", [g.call("on_device", [a], newer), g.call("on_device", [b], older)])
    steps = flatten(parse(g.text(g.function([x], both)), "test")).steps
    assert [(s.operator, s.device) for s in steps] == [
        ("exp", RelayDevice(2, 1)), ("log", RelayDevice(1)), ("add", None),
    ]  # fmt: skip


def test_metadata_of_a_text() -> None:
    g = Saved()
    value = normal(1, 4)
    constants = g.add("Array", data=[g.constant(value)])
    g.nodes.append({"type_key": "Map", "keys": ["relay.Constant"], "data": [constants]})
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, 4), float32]) {\n'
        "  add(%x, meta[relay.Constant][0] /* ty=Tensor[(1, 4), float32] */)\n}\n\n#[metadata]\n"
        + g.text(len(g.nodes) - 1)
    )
    (found,) = run(relay.frontend.from_text(text), {"x": value})
    np.testing.assert_array_equal(found, value + value)


def test_params_are_read(tmp_path: Path) -> None:
    path, params, expected = recorded("mlp")
    data = params.pop("data")
    file = tmp_path / "mlp.params"
    file.write_bytes(params_bytes(params))
    loaded = load_params(file)
    assert loaded.keys() == params.keys()
    assert all(np.array_equal(loaded[name], params[name]) for name in params)
    (found,) = run(relay.frontend.from_json(path, file), {"data": data})
    np.testing.assert_allclose(found, expected, rtol=1e-4)


PARAMS = params_bytes({"a": normal(2, 3), "b": np.arange(4)})
BAD_PARAMS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated"),
    "something else": (b"PK\3\4" + bytes(60), "first bytes differ"),
    "a huge count": (PARAMS[:16] + struct.pack("<Q", 2**60) + PARAMS[24:], "names in"),
    "a huge name": (PARAMS[:24] + struct.pack("<Q", 2**62) + PARAMS[32:], "a name of"),
    "more behind": (PARAMS + b"x", "1 bytes are left"),
    "one name twice": (PARAMS.replace(b"b", b"a"), "twice"),
    "a huge shape": (
        PARAMS[:-32].replace(struct.pack("<2q", 2, 3), struct.pack("<2q", 2**40, 2**40)),
        "is not 24 bytes",
    ),
}


@pytest.mark.parametrize("case", BAD_PARAMS)
def test_damaged_params(case: str) -> None:
    content, message = BAD_PARAMS[case]
    with pytest.raises(ModelError, match=message):
        load_params(content)


def test_params_cut_anywhere() -> None:
    for end in range(len(PARAMS)):
        with pytest.raises(ModelError):
            load_params(PARAMS[:end])


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(JSON)
    change(document)
    return json.dumps(document)


def cycle(document: dict[str, Any]) -> None:
    call = next(n for n in document["nodes"] if n["type_key"] == "relay.Call")
    args = document["nodes"][int(call["attrs"]["args"])]
    args["data"] = [document["nodes"].index(call)]


def node(kind: str, **fields: str) -> Callable[[dict[str, Any]], Any]:
    def change(document: dict[str, Any]) -> None:
        found = next(n for n in document["nodes"] if n["type_key"] == kind)
        found["attrs"].update(fields)

    return change


HOSTILE: dict[str, tuple[Callable[[], str], str]] = {
    "cut": (lambda: JSON[: len(JSON) // 2], "truncated"),
    "nothing": (lambda: "{}", "this has nothing"),
    "a list": (lambda: "[]", "JSON list"),
    "cyclic": (lambda: changed(cycle), "contains itself"),
    "a node that is not there": (
        lambda: changed(node("relay.Function", body="99999")), "refers to node 99999"),
    "no number of a node": (
        lambda: changed(node("relay.Function", body="-1")), "number of a node"),
    "a list of another kind": (
        lambda: changed(node("relay.Call", args="1")), "are no list"),
    "a root that is not there": (
        lambda: changed(lambda d: d.update(root=10**9)), "refers to node"),
    "a negative dimension": (
        lambda: changed(node("IntImm", value="-3")), "dimension is '-3'"),
    "a huge dimension": (
        lambda: changed(node("IntImm", value=str(2**62))), "too many elements"),
    "a number of a million digits": (
        lambda: changed(node("IntImm", value="9" * 10**6)), "expected a number"),
    "deep brackets": (lambda: '{"root":' + "[" * 200_000, "nested too deeply"),
    "millions of brackets": (lambda: "[" + "[]," * 4_000_000 + "0]", "values; at most"),
    "attrs that are no texts": (
        lambda: changed(lambda d: d["nodes"][71].update(attrs={"a": [1]})), "no texts"),
    "an array that is not there": (
        lambda: changed(lambda d: d["nodes"].__setitem__(
            71, {"type_key": "relay.Constant", "attrs": {"data": "3"}})), "array 3 of 0"),
    "a graph executor's file": (
        lambda: '{"nodes": [], "arg_nodes": [], "heads": []}', "compiled already"),
    "a newer TVM's file": (
        lambda: '{"root_index": 1, "nodes": []}', "0.21 or newer"),
    "a chain of tens of thousands": (lambda: long_chain(), "22000 calls"),
    "tuples that double": (lambda: doubled_tuples(), "a tuple of more than"),
    "text that is cut": (lambda: TEXT[: len(TEXT) // 2], "line"),
    "text of parentheses": (
        lambda: "def @main() {" + "(" * 100_000, "nested more than"),
    "an open comment": (lambda: "def @main() { /* ", "is not closed"),
    "no program": (lambda: "hello\nworld", "expected|defined"),
    "strange characters": (lambda: "def @main() { \x1b[31m }\n", "is not text of Relay"),
}  # fmt: skip


def long_chain() -> str:
    g = Saved()
    value = x = g.var("x", g.type(2))
    name = g.add("Op", text="exp")
    for _ in range(22_000):
        args = g.add("Array", data=[value])
        value = g.add("relay.Call", op=name, args=args, attrs=0, _checked_type_=0)
    return g.text(g.function([x], value))


def doubled_tuples() -> str:
    g = Saved()
    value = x = g.var("x", g.type(2))
    for _ in range(60):
        value = g.add("relay.Tuple", fields=g.add("Array", data=[value, value]))
    return g.text(g.function([x], value))


def import_all(text: str) -> None:
    relay.frontend.from_json(text)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(case: str) -> None:
    make, message = HOSTILE[case]
    text = make()
    with pytest.raises(ModelError, match=message) as caught:
        import_all(text)
    assert len(str(caught.value)) < 600 and str(caught.value).isprintable()


def test_an_oversized_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(ModelError, match="8589934592 bytes, but"):
        relay.frontend.from_json(path)
    with pytest.raises(ModelError, match="no such file"):
        relay.frontend.from_json(tmp_path / "missing.json")
    with pytest.raises(ModelError, match="is no plain file"):
        relay.frontend.from_json(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="no text"):
        relay.frontend.from_json(tmp_path / "binary.json")
    with pytest.raises(ModelError, match="at most 100"):
        relay.frontend.from_json(JSON, limits=RelayLimits(nodes=100))


@settings(max_examples=draws(36), deadline=None)
@given(st.data())
def test_damage_anywhere_is_an_error_of_ours_or_none(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([JSON, TEXT]))
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 20))
    put = data.draw(st.text('0123456789abc%@(){}[],:"=/*-. \n', max_size=4))
    try:
        flatten(parse(text[:at] + put + text[at + cut :], "damaged"))
    except HeteroError as error:
        assert str(error)


@settings(max_examples=draws(30), deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_reshape_codes(shape: list[int], data: st.DataObject) -> None:
    """One code for each dimension, some merged, some split; read from either side."""
    codes, expected, rest = [], [], list(shape)
    while rest:
        first = rest.pop(0)
        kinds = ["keep", "say", "split"] + ["merge"] * bool(rest)
        kind = data.draw(st.sampled_from(kinds))
        if kind == "merge":
            expected.append(first * rest.pop(0))
            codes.append(-3)
        elif kind == "split":
            half = data.draw(st.sampled_from([d for d in range(1, 7) if first % d == 0]))
            expected += [half, first // half]
            codes += [-4, half, -1]
        else:
            expected.append(first)
            codes.append(0 if kind == "keep" else first)
    assert new_shape(shape, codes) == expected
    if not {-3, -4} & set(codes):
        assert new_shape(shape, codes, reverse=True) == expected


def test_relay_check_lists_everything_at_once(tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    kind = "Tensor[(2, 3), float32]"
    file.write_text(
        f'#[version = "0.0.5"]\ndef @main(%x: {kind}) {{\n'
        f"  %0 = nn.strange(%x) /* ty={kind} */;\n  %1 = nn.relu(%0);\n"
        f"  %2 = nn.softmax(%1, flavour=1) /* ty={kind} */;\n  %3 = vision.odd(%2);\n"
        "  exp(%3)\n}\n"
    )
    told = tvm_hetero("relay-check", file)
    assert told.status == 1
    assert "line 3, column 8 (nn.strange)" in told.out and "'flavour'" in told.out
    assert "vision.odd" in told.out and "3 problems" in told.out
    listed = tvm_hetero("relay-check", file, "--json")
    assert json.loads(listed.out)["operators"]["nn.relu"] == 1
    fine = tvm_hetero("relay-check", DATA / "mlp.relay.json")
    assert fine.status == 0 and "every operator can be imported" in fine.out


def test_a_program_is_partitioned_with_its_params(tmp_path: Path) -> None:
    path, params, expected = recorded("mlp")
    data = params.pop("data")
    (tmp_path / "mlp.params").write_bytes(params_bytes(params))
    platform = tmp_path / "platform.yaml"
    from tests.frontends.relay.models import unlike_cpus

    unlike_cpus().save(platform)
    made = tvm_hetero(
        "partition", path, "--params", tmp_path / "mlp.params", "-o", tmp_path / "net.hetero",
        "--platform", platform, "--cost-model", "analytical", "--no-measure", "--json",
    )  # fmt: skip
    assert made.status == 0, made.err
    import tvm_hetero as th

    with th.load(tmp_path / "net.hetero") as executor:
        np.testing.assert_allclose(executor.run({"data": data})[0].numpy(), expected, rtol=1e-4)
    wrong = tvm_hetero("partition", path, "--random-weights", 1, "-o", tmp_path / "other.hetero")
    assert wrong.status == 2 and "--random-weights is for ONNX models" in wrong.err


def test_the_classes_are_plain_data() -> None:
    program, name = read(DATA / "mlp.relay.json")
    assert name == "mlp" and isinstance(program, RelayProgram)
    assert isinstance(program.functions["main"], Function)
    assert Constant(np.zeros(1)).value.shape == (1,)
