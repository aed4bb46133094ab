"""If, Loop and Scan: the same values as ONNX Runtime's, without them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.frontends.onnx.expansion.test_walk import X, branch, expanded, operators, same
from tests.frontends.onnx.models import make, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion import control_flow
from tvm_hetero.frontends.onnx.expansion.loop_steps import count_nodes, scalar

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def if_on_data(shape: list[int], other: str = "Neg") -> object:
    """By a flag: the double of x, or `other` of x."""
    nodes = [
        helper.make_node(
            "If",
            ["flag"],
            ["i"],
            then_branch=branch("then", [helper.make_node("Add", ["x", "x"], ["r"])]),
            else_branch=branch("else", [helper.make_node(other, ["x"], ["r2"])]),
        ),
        helper.make_node("Relu", ["i"], ["y"]),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"])
    model.graph.input.append(value("flag", shape, BOOL))
    return model


@pytest.mark.parametrize("shape", [[], [1]])
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_on_data_is_a_choice_between_both(shape: list[int], flag: bool) -> None:
    feeds = {**X, "flag": np.full(shape, flag)}
    assert operators(same(if_on_data(shape), feeds))[-3:] == (
        ["Reshape", "Where", "Relu"] if shape else ["Neg", "Where", "Relu"]
    )


def test_branches_of_different_shapes_are_refused() -> None:
    model = if_on_data([], "Flatten")
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 4
    with pytest.raises(ModelError, match=r"\(If\) chooses by 'flag'.* different shapes"):
        expanded(model)


def test_a_loop_ends_where_its_condition_says() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Less", ["i", "three"], ["c_out"]),
            helper.make_node("Add", ["s", "x"], ["s_out"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", [2, 3])],
        [value("c_out", [], BOOL), value("s_out", [2, 3])],
    )
    node = helper.make_node("Loop", ["", "go", "x"], ["y"], body=body)
    constants = {"three": np.array(3), "go": np.array(True)}
    graph = same(make([node], {"x": [2, 3]}, ["y"], constants), X)
    assert operators(graph).count("Add") == 4


def test_names_do_not_grow_with_the_steps_of_a_loop() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Neg", ["s"], ["n"]),
            helper.make_node("Add", ["n", "x"], ["s_out"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", [2, 3])],
        [value("c_out", [], BOOL), value("s_out", [2, 3])],
    )
    node = helper.make_node("Loop", ["steps", "", "x"], ["y"], "rec", body=body)
    graph = same(make([node], {"x": [2, 3]}, ["y"], {"steps": np.array(60)}), X)
    names = [name for node in graph.nodes for name in (node.name, *node.output)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < len("rec/step60/Identity") + 10


def test_a_loop_whose_end_depends_on_data_is_refused() -> None:
    body = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["s"], ["t"], keepdims=0),
            helper.make_node("Less", ["t", "ten"], ["c_out"]),
            helper.make_node("Add", ["s", "x"], ["s_out"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", [2, 3])],
        [value("c_out", [], BOOL), value("s_out", [2, 3])],
    )
    node = helper.make_node("Loop", ["", "go", "x"], ["y"], body=body)
    constants = {"ten": np.array(10, np.float32), "go": np.array(True)}
    with pytest.raises(ModelError, match=r"\(Loop\) goes on \(at step 1\) .* data of the input"):
        expanded(make([node], {"x": [2, 3]}, ["y"], constants))


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scan_is_unrolled(axis: int, backwards: int) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "xi"], ["s_out"]),
            helper.make_node("Relu", ["s_out"], ["scan"]),
        ],
        "body",
        [value("s", [2]), value("xi", [2])],
        [value("s_out", [2]), value("scan", [2])],
    )
    node = helper.make_node(
        "Scan",
        ["start", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[backwards],
        scan_output_axes=[-1 if axis else 0],
        scan_output_directions=[backwards],
    )
    shape = [4, 2] if axis == 0 else [2, 4]
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    model = make([node], {"x": shape}, ["last", "all"], {"start": np.ones(2, np.float32)})
    assert "Scan" not in operators(same(model, feeds))


def test_sequences_are_lists_of_names() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=1),
        helper.make_node("SequenceInsert", ["s", "x", "minus"], ["t"]),
        helper.make_node("SequenceErase", ["t", "zero"], ["u"]),
        helper.make_node("Identity", ["u"], ["v"]),
        helper.make_node("ConcatFromSequence", ["v"], ["joined"], axis=1),
        helper.make_node("SequenceLength", ["v"], ["count"]),
        helper.make_node("SequenceAt", ["v", "minus"], ["last"]),
    ]
    constants = {"sizes": np.array([1, 2]), "minus": np.array(-1), "zero": np.array(0)}
    model = make(nodes, {"x": [2, 3]}, ["joined", "count", "last"], constants, opset=16)
    model.graph.output[1].type.tensor_type.elem_type = INT64
    graph = same(model, X)
    assert set(operators(graph)) <= {"Slice", "Concat", "Identity"}


def test_a_sequence_is_handed_over_as_its_elements() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("SequenceConstruct", ["x", "r"], ["s"]),
    ]
    model = make(nodes, {"x": [2, 3]}, ["s"])
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    model.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(tensor))
    graph = expanded(model)
    assert [o.name for o in graph.outputs] == ["s_0", "s_1"]
    first, second = run(graph.to_model(), X)
    np.testing.assert_array_equal(first, X["x"])
    np.testing.assert_array_equal(second, np.maximum(X["x"], 0))


def test_what_an_optional_holds_is_known() -> None:
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("OptionalGetElement", ["o"], ["e"]),
        helper.make_node("Not", ["has"], ["no"]),
        helper.make_node("Where", ["no", "x", "e"], ["w"]),
        helper.make_node("Neg", ["w"], ["y"]),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"], opset=18)
    (found,) = run(expanded(model).to_model(), X)
    np.testing.assert_array_equal(found, -X["x"])


def endless(trips: int, depth: int = 1) -> object:
    """Loops in loops of so many steps each, which no condition ends."""
    nodes = [helper.make_node("Relu", ["s0"], ["r0"])]
    for d in range(1, depth + 1):
        body = helper.make_graph(
            [helper.make_node("Identity", [f"c{d}"], [f"e{d}"]), *nodes],
            f"body{d}",
            [value(f"i{d}", [], INT64), value(f"c{d}", [], BOOL), value(f"s{d - 1}", [2, 3])],
            [value(f"e{d}", [], BOOL), value(f"r{d - 1}", [2, 3])],
        )
        names = ("x", "y") if d == depth else (f"s{d}", f"r{d}")
        nodes = [helper.make_node("Loop", ["n", "go", names[0]], [names[1]], body=body)]
    constants = {"n": np.array(trips), "go": np.array(True)}
    return make(nodes, {"x": [2, 3]}, ["y"], constants)


@pytest.mark.parametrize(("trips", "depth"), [(2**62, 1), (200_000, 1), (300, 5)])
def test_a_loop_too_long_is_refused_before_its_first_step(
    trips: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 40 s to grow past the limit."""
    monkeypatch.setattr(control_flow, "_goes_on", lambda r, step: pytest.fail("it has begun"))
    with pytest.raises(ModelError, match=r"\(Loop\) is unrolled; its steps would make \d+ nodes"):
        expanded(endless(trips, depth))


def ended(kind: str, bound: int, trips: int | None = None) -> ModelProto:
    """A loop of Relus; `kind` says what its condition is made of."""
    true = numpy_helper.from_array(np.array(True), "t")
    limit = helper.make_node("Constant", [], ["limit"], value_int=bound)
    made = {
        "a constant": [helper.make_node("Constant", [], ["e"], value=true)],
        "an initializer": [helper.make_node("Identity", ["t"], ["e"])],
        "a name around it": [helper.make_node("And", ["go", "c"], ["e"])],
        "the step": [limit, helper.make_node("Less", ["i", "limit"], ["e"])],
        "another type": [
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Constant", [], ["limit"], value_float=float(bound)),
            helper.make_node("Greater", ["f", "limit"], ["g"]),
            helper.make_node("Not", ["g"], ["e"]),
        ],
        "a counter": [
            limit,
            helper.make_node("Add", ["one", "k"], ["k_out"]),
            helper.make_node("Unsqueeze", ["k_out", "zeros"], ["k1"]),
            helper.make_node("Less", ["k1", "limit"], ["e"]),
        ],
        "a countdown": [
            helper.make_node("Sub", ["k", "one"], ["k_out"]),
            helper.make_node("Greater", ["k_out", "minus"], ["e"]),
        ],
    }[kind]
    counts = any("k_out" in node.output for node in made)
    last = [] if counts else [helper.make_node("Identity", ["k"], ["k_out"])]
    body = helper.make_graph(
        [*made, *last, helper.make_node("Relu", ["s"], ["r"])],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", [2, 3]), value("k", [], INT64)],
        [value("e", None, BOOL), value("r", [2, 3]), value("k_out", [], INT64)],
        [true],
    )
    constants = {"n": np.array(trips or 0), "go": np.array(True), "zero": np.array(0),
                 "one": np.array(1), "zeros": np.array([0]), "minus": np.array(-bound)}  # fmt: skip
    loop = helper.make_node("Loop", ["" if trips is None else "n", "go", "x", "zero"],
                            ["y", "count"], body=body)  # fmt: skip
    return make([loop], {"x": [2, 3]}, ["y"], constants)


ENDLESS = ("a constant", "an initializer", "a name around it")
COUNTED = ("the step", "another type", "a counter", "a countdown")


@pytest.mark.parametrize("trips", [None, 2**40])
@pytest.mark.parametrize("kind", [*ENDLESS, *COUNTED])
def test_a_condition_that_holds_too_long_is_seen_before_the_first_step(
    kind: str, trips: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 24 s on an idle machine to grow past the limit."""
    monkeypatch.setattr(control_flow, "_goes_on", lambda r, step: pytest.fail("it has begun"))
    with pytest.raises(ModelError, match=r"its steps would make \d+ nodes or more"):
        expanded(ended(kind, 2**40, trips))


@pytest.mark.parametrize("trips", [None, 3, 9, 80])
@pytest.mark.parametrize("bound", [-1, 0, 5, 70])
@pytest.mark.parametrize("kind", COUNTED)
def test_steps_are_counted_ahead_as_they_come(kind: str, bound: int, trips: int | None) -> None:
    model = ended(kind, bound, trips)
    loop = model.graph.node[0]
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    met = count_nodes(loop, lambda name: scalar(known[name]) if name in known else None, 10**6)
    nodes = 1 + len(loop.attribute[0].g.node)
    assert (met - 1) % nodes == 0
    assert (met - 1) // nodes == operators(expanded(model)).count("Relu")


@pytest.mark.parametrize("trips", [-3, 0, 1])
def test_a_condition_that_never_holds_ends_a_loop_after_its_first_step(trips: int) -> None:
    """Where there was no step at all, which one is the last was asked of none: a fault."""
    model = ended("a constant", 0, trips)
    given = model.graph.node[0].attribute[0].g.node[0].attribute[0].t
    given.CopyFrom(numpy_helper.from_array(np.array(False), "f"))
    assert operators(same(model, X)).count("Relu") == max(0, trips)


@pytest.mark.filterwarnings("error")
def test_a_counter_beyond_all_numbers_is_counted_in_silence() -> None:
    """Infinity less infinity is no number, and that is not greater than 0."""
    body = helper.make_graph(
        [
            helper.make_node("Sub", ["k", "step"], ["k_out"]),
            helper.make_node("Greater", ["k_out", "zero"], ["e"]),
            helper.make_node("Relu", ["s"], ["r"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", [2, 3]), value("k", [])],
        [value("e", [], BOOL), value("r", [2, 3]), value("k_out", [])],
    )
    node = helper.make_node("Loop", ["", "go", "x", "begin"], ["y", "end"], body=body)
    infinite = np.float32(np.inf)
    constants = {"go": np.array(True), "zero": np.float32(0), "begin": infinite, "step": infinite}
    constants = {name: np.asarray(each) for name, each in constants.items()}
    model = make([node], {"x": [2, 3]}, ["y", "end"], constants)
    assert operators(same(model, X)).count("Relu") == 1


def test_a_condition_on_data_is_not_counted_ahead() -> None:
    model = ended("the step", 2**40)
    body = model.graph.node[0].attribute[0].g
    body.node[1].CopyFrom(helper.make_node("ReduceMax", ["s"], ["m"], keepdims=0))
    body.node.insert(2, helper.make_node("Less", ["m", "one_half"], ["e"]))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "one_half"))
    with pytest.raises(ModelError, match=r"goes on \(at step 1\)"):
        expanded(model)


def test_short_loops_in_loops_are_still_unrolled() -> None:
    assert operators(same(endless(3, 2), X)).count("Relu") == 9


def test_a_name_of_the_loop_around_it_is_not_the_constant_of_that_name() -> None:
    inner = helper.make_graph(
        [helper.make_node("Identity", ["c1"], ["e1"]), helper.make_node("Relu", ["s1"], ["t1"])],
        "inner",
        [value("i1", [], INT64), value("c1", [], BOOL), value("s1", [2, 3])],
        [value("e1", [], BOOL), value("t1", [2, 3])],
    )
    outer = helper.make_graph(
        [
            helper.make_node("Identity", ["c0"], ["e0"]),
            helper.make_node("Identity", ["n"], ["m"]),
            helper.make_node("Loop", ["n", "", "s0"], ["t0"], body=inner),
        ],
        "outer",
        [value("i0", [], INT64), value("c0", [], BOOL), value("n", [], INT64),
         value("s0", [2, 3])],
        [value("e0", [], BOOL), value("m", [], INT64), value("t0", [2, 3])],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["two", "go", "two", "x"], ["last", "y"], body=outer)
    constants = {"n": np.array(2**40), "two": np.array(2), "go": np.array(True)}
    made = same(make([loop], {"x": [2, 3]}, ["y"], constants), X)
    assert operators(made).count("Relu") == 4


@pytest.mark.parametrize("trips", [np.nan, np.inf])
def test_steps_that_are_no_whole_number_are_refused(trips: float) -> None:
    with pytest.raises(ModelError) as refused:
        expanded(endless(trips))
    assert "fault of tvm_hetero" not in str(refused.value)


@pytest.mark.parametrize("length", [10**6, 2**40])
def test_a_scan_or_a_sequence_too_long_is_refused_before_its_first_step(length: int) -> None:
    """It grew until the child was out of time, and the file was said to be damaged."""
    body = helper.make_graph([helper.make_node("Relu", ["xi"], ["o"])], "body",
                             [value("xi", [1])], [value("o", [1])])  # fmt: skip
    scan = helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)
    split = [helper.make_node("SplitToSequence", ["x"], ["s"]),
             helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)]  # fmt: skip
    sized = [helper.make_node("SplitToSequence", ["x", "one"], ["s"]), split[1]]
    for nodes in ([scan], split, sized):
        with pytest.raises(ModelError, match=r"would make \d+ nodes or more"):
            expanded(make(nodes, {"x": [length, 1]}, ["y"], {"one": np.array(1)}))
