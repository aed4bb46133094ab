"""What a file says of types, where it is not so: refused, with its place."""

from __future__ import annotations

import pytest

from tests.frontends.relay.cases import normal, run
from tests.frontends.relay.json_reader.test_graph_file import Saved
from tests.frontends.relay.text_reader.test_parser import HEAD, TYPE, X, main
from tvm_hetero import relay
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.check import relay_check

OTHER = "Tensor[(9, 9), float32]"
PAIR = f"({TYPE}, {TYPE})"
HALF = "Tensor[(2, 2), float32]"


def called(param: str = TYPE, result: str = TYPE, given: str = "") -> str:
    """A function that doubles, which is called; what the file says of its types."""
    function = f"fn (%y: {param}) -> {result} {{\n    add(%y, %y)\n  }}"
    return main(f"%0 = {function};\n  %0(%x){given}")


WRONG = {
    "a variable": (main(f"let %y: {OTHER} = exp(%x);\n  %y"),
                   r"variable 'y' is .*9, 9.* but it is .*2, 4.*damaged"),
    "a variable's data type": (main(f"let %y: {TYPE.replace('32', '16')} = exp(%x);\n  %y"),
                               "variable 'y' is .*float16"),
    "a variable that is an input": (main(f"let %y: {OTHER} = %x;\n  exp(%y)"), "variable 'y'"),
    "a variable that is a constant": (main("let %y: int32 = 1f;\n  add(%x, %y)"), "variable 'y'"),
    "a variable that nobody reads": (main(f"let %y: {OTHER} = exp(%x);\n  %x"), "variable 'y'"),
    "a tuple's variable": (main(f"let %y: ({TYPE}, {OTHER}) = (%x, exp(%x));\n  %y.1"),
                           "variable 'y'"),
    "a tuple of more": (main(f"let %y: {PAIR} = (%x, %x, %x);\n  %y.1"), "a tuple of 3"),
    "a tuple that is a tensor": (main(f"let %y: {TYPE} = (%x, %x);\n  %y.1"), "a tuple of 2"),
    "a tensor that is a tuple": (main(f"let %y: {PAIR} = exp(%x);\n  %y"), "variable 'y'"),
    "a part": (main("%0 = split(%x, indices_or_sections=2, axis=1);\n"
                    f"  let %y: {TYPE} = %0.1;\n  %y"), "variable 'y'"),
    "parts": (main(f"let %y: ({HALF}, {TYPE}) = split(%x, indices_or_sections=2, axis=1);\n  %y.0"),
              "variable 'y'"),
    "fewer parts": (main(f"let %y: ({HALF},) = split(%x, indices_or_sections=2, axis=1);\n  %y.0"),
                    "a tuple of 2"),
    "a function's parameter": (called(param=OTHER), r"line 6.*variable 'y'"),
    "a function's result": (called(result=OTHER), "line 6.* gives .*9, 9"),
    "a call's result": (called(given=f" /* ty={OTHER} */"), "line 6.* gives .*9, 9"),
    "more than an operator makes": (
        main(f"%0 = split(%x, indices_or_sections=2, axis=1) /* ty=({HALF}, {HALF}, {HALF}) */;\n"
             "  %0.0"), "a tuple of 3, but it makes 2"),
    "less than an operator makes": (
        main(f"%0 = split(%x, indices_or_sections=2, axis=1) /* ty=({HALF},) */;\n  %0.0"),
        "a tuple of 1, but it makes 2"),
    "a dropout of three": (main(f"%0 = nn.dropout(%x) /* ty=({TYPE}, {TYPE}, {TYPE}) */;\n  %0.0"),
                           "a tuple of 3, but it makes 2"),
    "tuples where tensors are": (
        main("%0 = split(%x, indices_or_sections=2, axis=1) "
             f"/* ty=({HALF}, ({HALF}, {HALF})) */;\n  %0.0"), "the file says"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_type_that_is_not_so(case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(ModelError, match=message) as caught:
        relay.frontend.from_text(text)
    assert str(caught.value).isprintable()
    assert any("the file says" in problem for problem in relay_check(text).problems)


def test_types_that_are_so() -> None:
    body = (
        f"%0 = fn (%y: {TYPE}, %t: ({TYPE}, {TYPE})) -> ({TYPE}, {TYPE}) {{\n"
        "    (add(%y, %t.0), %t.1)\n  };\n"
        f"  let %a: {PAIR} = %0(%x, (%x, %x)) /* ty={PAIR} */;\n"
        f"  let %d: {PAIR} = nn.dropout(%a.0) /* ty={PAIR} */;\n"
        f"  let %s: ({HALF}, {HALF}) = split(%d.0, indices_or_sections=2, axis=1);\n"
        "  let %c: float32 = 2f;\n  let %any: Tensor[(?, 4), float32] = multiply(%a.1, %c);\n"
        f"  let %b: {HALF} = %s.1;\n  let %f: fn ({TYPE}) -> {TYPE} = fn (%q: {TYPE}) {{ %q }};\n"
        "  (%b, %f(%any))"
    )
    assert not relay_check(main(body)).problems
    first, second = run(relay.frontend.from_text(main(body)), {"x": X})
    assert (first == (X + X)[:, 2:]).all() and (second == X + X).all()


def saved(variable: tuple[int, ...], noted: tuple[int, ...] | None = None) -> str:
    """A let in a saved graph, of a variable of two types: the checked one and the annotation."""
    g = Saved()
    x = g.var("x", g.type(2, 4))
    identity = g.add("relay.Id", name_hint=g.add("runtime.String", text="y"))
    y = g.add("relay.Var", vid=identity, _checked_type_=g.type(*variable),
              type_annotation=g.type(*noted) if noted else 0)  # fmt: skip
    return g.text(
        g.function([x], g.add("relay.Let", var=y, value=g.call("exp", [x]), body=y))
    )  # fmt: skip


def test_variables_of_a_saved_graph() -> None:
    assert relay.frontend.from_json(saved((2, 4), (2, 4)))
    with pytest.raises(ModelError, match=r"variable 'y' is .*9, 9.*but it is"):
        relay.frontend.from_json(saved((9, 9)))
    with pytest.raises(ModelError, match=r"variable 'y' is .*9, 9.*and that it is"):
        relay.frontend.from_json(saved((2, 4), (9, 9)))


def test_a_function_where_a_tensor_is_said_to_be() -> None:
    g = Saved()
    x, p = g.var("x", g.type(2, 4)), g.var("p", g.type(2, 4))
    f = g.var("f", g.type(2, 4))
    called = g.add("relay.Call", op=f, args=g.add("Array", data=[x]), attrs=0)
    body = g.add("relay.Let", var=f, value=g.function([p], p), body=called)
    with pytest.raises(ModelError, match=r"variable 'f' is .* but it is a function"):
        relay.frontend.from_json(g.text(g.function([x], body)))


IMAGE = "%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), float32]"
GROUPED = "%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 2, 3, 3), float32]"
CONVOLUTIONS = {
    "nn.conv2d(%x, %w, strides=[0, 1])": r"strides=\[0, 1\]",
    "nn.conv2d(%x, %w, strides=[1, -2])": r"strides=\[1, -2\]",
    "nn.conv2d(%x, %w, dilation=[0, 0])": r"dilation=\[0, 0\]",
    "nn.conv2d(%x, %w, padding=[-1, 0])": r"padding=\[-1, 0, -1, 0\]",
    "nn.conv2d(%x, %w, groups=3)": "groups=3 does not divide the 4 input channels",
    "nn.conv2d(%x, %w, groups=4)": "groups=4 does not divide the 6 output channels",
    "nn.conv2d(%x, %w, groups=0)": "groups=0 does not divide",
    "nn.conv2d(%x, %w, groups=-2)": "groups=-2 does not divide",
    "nn.conv2d_transpose(%x, %w, strides=[0, 1])": "strides",
    "nn.conv2d_transpose(%x, %w, groups=3)": "groups=3 does not divide the 4 input",
    "nn.conv2d_transpose(%x, %w, groups=0)": "groups=0",
    "nn.conv2d_transpose(%x, %w, padding=[-1])": "padding",
    "nn.conv2d_transpose(%x, %w, strides=[2, 2], output_padding=[-1, 0])": "output_padding",
    "nn.max_pool2d(%x, pool_size=[2, 2], strides=[0, 0])": "strides",
    "nn.max_pool2d(%x, pool_size=[0, 2])": "pool_size",
    "nn.avg_pool2d(%x, pool_size=[2, 2], padding=[-1, -1])": "padding",
    "nn.avg_pool2d(%x, pool_size=[2, 2], dilation=[0, 1])": "dilation",
    "nn.adaptive_avg_pool2d(%x, output_size=[0, 1])": "output_size",
    "nn.adaptive_max_pool2d(%x, output_size=[-2, 1])": "output_size",
}


@pytest.mark.parametrize("body", CONVOLUTIONS)
def test_windows_that_cannot_be(body: str) -> None:
    """By name and place, rather than by what TVM makes of them."""
    with pytest.raises(ModelError, match=rf"line 3, column 3.*{CONVOLUTIONS[body]}"):
        relay.frontend.from_text(main(body, params=GROUPED if "groups=4" in body else IMAGE))


def test_text_that_says_nothing_of_a_transposed_kernel_is_stored_input_first() -> None:
    """``kernel_layout`` left out: ``IOHW``, whichever of the two the shape would allow."""
    from tests.frontends.relay.numpy_reference import conv_transpose

    x, w = normal(1, 3, 4, 4), normal(3, 3, 2, 2, seed=1)
    params = "%x: Tensor[(1, 3, 4, 4), float32], %w: Tensor[(3, 3, 2, 2), float32]"
    module = relay.frontend.from_text(main("nn.conv2d_transpose(%x, %w)", HEAD, params))
    (found,) = run(module, {"x": x, "w": w})
    expected = conv_transpose(x, w, [1, 1], [0] * 4, [0, 0])
    assert abs(found - expected).max() < 1e-4
