"""Forms of operators of networks: products, recurrences, losses, regions, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.operator_forms import Form, FormDraw, form, longs


@form("Gemm")
def gemm(d: FormDraw, operator: str) -> Form:
    """Transposed, scaled, with what is broadcast."""
    kind = d.choose(["float32", "float32", "float16", "float64", "int32", "int64"])
    m, k, n = (d.integer(0 if d.zeros else 1, 5) for _ in range(3))
    flags = d.some(transA=d.integer(0, 1), transB=d.integer(0, 1))
    a = d.array(kind, (k, m) if flags.get("transA") else (m, k))
    b = d.array(kind, (n, k) if flags.get("transB") else (k, n))
    operands = [a, b]
    if d.opset < 11 or d.flag(0.7):
        operands.append(d.array(kind, d.broadcast((m, n))))
    scales = d.some(alpha=d.choose([1.0, 0.5, 2.0]), beta=d.choose([0.0, 2.0]))
    return Form(operator, operands, flags | scales, d.fix(1, 2, share=0.5))


@form("MatMul", "MatMulInteger")
def product(d: FormDraw, operator: str) -> Form:
    """Vectors, matrices, and batches that are broadcast."""
    kind = d.choose(["float32", "float32", "float16", "float64", "int32", "int64", "uint32"])
    m, k, n = (d.integer(0 if d.zeros else 1, 5) for _ in range(3))
    batch = d.dims(0, 2, 3)
    left, right = (*d.broadcast(batch), m, k), (*batch, k, n)
    left, right = (k,) if d.flag(0.15) else left, (k,) if d.flag(0.15) else right
    if operator == "MatMul":
        return Form(operator, [d.array(kind, left), d.array(kind, right)], {}, d.fix(1, share=0.4))
    kinds = [d.choose(["int8", "uint8"]) for _ in range(2)]
    zeros = [d.array(k_, ()) if d.flag() else None for k_ in kinds]
    return Form(
        operator, [d.array(kinds[0], left), d.array(kinds[1], right), *zeros], {}, d.fix(1, 2, 3)
    )


@form("Einsum")
def einsum(d: FormDraw, operator: str) -> Form:
    """Letters, ellipses, diagonals."""
    sizes = {letter: d.integer(1, 4) for letter in "ijkl"}
    equations = [
        "ij,jk->ik",
        "ij->ji",
        "ii->i",
        "ij->",
        "i,j->ij",
        "...ij,...jk->...ik",
        "ijk,ik->j",
        "ij,jk",
        "ii",
        "ij,ij->",
        "ijk->kj",
        " i j , j k -> i k ",
        "ij,j,k->ik",
    ]
    equation = d.choose(equations)
    left = equation.split("->")[0].replace(" ", "").replace("...", "").split(",")
    kind = d.choose(["float32", "float64", "int32"])
    return Form(
        operator, [d.array(kind, [sizes[c] for c in term]) for term in left], {"equation": equation}
    )


@form("LSTM", "GRU", "RNN")
def recurrent(d: FormDraw, operator: str) -> Form:
    """Directions, layouts, clips, lengths, given states."""
    d.extremes = False
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    steps, batch, n, hidden = d.integer(1, 4), d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
    direction = d.choose(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    layout = d.integer(0, 1) if d.opset >= 14 and d.flag(0.3) else 0

    def state() -> Any:
        dims = (batch, ways, hidden) if layout else (ways, batch, hidden)
        return d.array("float32", dims) if d.flag(0.3) else None

    x = d.array("float32", (batch, steps, n) if layout else (steps, batch, n), high=4)
    lengths = np.asarray([d.integer(1, steps) for _ in range(batch)], np.int32)
    operands = [
        x,
        d.array("float32", (ways, gates * hidden, n), 3),
        d.array("float32", (ways, gates * hidden, hidden), 3),
        d.array("float32", (ways, 2 * gates * hidden), 3) if d.flag() else None,
        lengths if d.flag(0.3) else None,
        state(),
    ]
    if operator == "LSTM":
        operands += [state(), d.array("float32", (ways, 3 * hidden), 3) if d.flag(0.3) else None]
    attributes = {
        "hidden_size": hidden,
        "direction": direction,
        **({"layout": 1} if layout else {}),
    }
    attributes |= {"clip": 1.0} if d.flag(0.2) else {}
    if operator == "GRU":
        attributes |= d.some(linear_before_reset=d.integer(0, 1))
    if operator == "LSTM":
        attributes |= {"input_forget": 1} if d.flag(0.2) else {}
    if d.flag(0.25):
        names = ["Tanh", "Relu", "Sigmoid", "HardSigmoid", "Softsign", "Elu"]
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[operator] * ways
        attributes["activations"] = [d.choose(names) for _ in range(count)]
    return Form(operator, operands, attributes, d.fix(1, 2, 3, 4), 3 if operator == "LSTM" else 2)


@form("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: FormDraw, operator: str) -> Form:
    """Weights, ignored labels, reductions."""
    d.extremes = False
    classes, dims = d.integer(1, 4), d.dims(0, 2, 3)
    batch = d.integer(1, 3)
    scores = d.array("float32", (batch, classes, *dims))
    ignored = d.choose([None, 0, -1])
    labels = d.rng.integers(0, classes, (batch, *dims))
    if ignored is not None:
        labels[d.rng.random(labels.shape) < 0.3] = ignored
    operands = [scores, labels.astype(d.choose(["int64", "int32"]))]
    if d.flag():
        operands.append(np.abs(d.array("float32", (classes,))) + np.float32(0.25))
    attributes = d.some(reduction=d.choose(["none", "sum", "mean"]))
    return Form(
        operator, operands, attributes | ({} if ignored is None else {"ignore_index": ignored})
    )


@form("RoiAlign")
def roi_align(d: FormDraw, operator: str) -> Form:
    """Boxes partly outside."""
    d.extremes = False
    x = d.array("float32", (d.integer(1, 2), 2, d.integer(2, 6), d.integer(2, 6)))
    boxes = d.rng.uniform(-1, 7, (d.integer(1, 3), 4)).astype(np.float32)
    batch = longs(d.rng.integers(0, x.shape[0], len(boxes)))
    attributes = d.some(
        mode=d.choose(["avg", "max"]),
        output_height=d.integer(1, 3),
        spatial_scale=0.5,
        output_width=d.integer(1, 3),
        sampling_ratio=d.integer(0, 2),
    )
    if d.opset >= 16:
        attributes |= d.some(
            coordinate_transformation_mode=d.choose(["half_pixel", "output_half_pixel"])
        )
    return Form(operator, [x, boxes, batch], attributes)


@form("Det")
def det(d: FormDraw, operator: str) -> Form:
    """Square matrices."""
    d.extremes = False
    n = d.integer(1, 4)
    return Form(operator, [d.array("float32", (*d.dims(0, 2, 3), n, n))])


@form("Col2Im")
def col2im(d: FormDraw, operator: str) -> Form:
    """Columns back to an image."""
    d.extremes = False
    image, block = [d.integer(3, 6) for _ in range(2)], [d.integer(1, 3) for _ in range(2)]
    strides, pads = [d.integer(1, 2) for _ in range(2)], [d.integer(0, 1) for _ in range(4)]
    counts = [
        (n + pads[i] + pads[i + 2] - k) // s + 1
        for i, (n, k, s) in enumerate(zip(image, block, strides, strict=True))
    ]
    x = d.array("float32", (1, 2 * int(np.prod(block)), int(np.prod(counts))))
    return Form(
        operator,
        [x, longs(image), longs(block)],
        {"strides": strides, "pads": pads},
        frozenset({1, 2}),
    )


@form("DFT")
def dft(d: FormDraw, operator: str) -> Form:
    """Forwards, back, and half of it."""
    d.extremes = False
    x = d.array("float32", (d.integer(1, 2), d.integer(1, 6), d.integer(1, 3), d.integer(1, 2)))
    axis = d.choose([1, 2, -2, -3])
    length = longs(d.integer(1, 8)) if d.flag(0.3) else None
    attributes = d.some(inverse=d.integer(0, 1))
    attributes |= d.some(onesided=1) if not attributes.get("inverse") else {}
    if d.opset < 20:
        return Form(operator, [x, length], {**attributes, "axis": axis % 4}, d.fix(1))
    return Form(operator, [x, length, longs(axis)], attributes, frozenset({1, 2}))


@form("RotaryEmbedding")
def rotary(d: FormDraw, operator: str) -> Form:
    """Halves or pairs, of all or a part."""
    d.extremes, d.opset = False, d.choose([23, 24])
    batch, heads, length, size = (
        d.integer(1, 2),
        d.integer(1, 3),
        d.integer(1, 4),
        2 * d.integer(1, 3),
    )
    part = 2 * d.integer(1, size // 2) if d.flag(0.4) else 0
    flat = d.flag()
    x = d.array("float32", (batch, length, heads * size) if flat else (batch, heads, length, size))
    half = (part or size) // 2
    tables = [d.array("float32", (9, half)) for _ in range(2)]
    ids = longs(d.rng.integers(0, 9, (batch, length)))
    attributes: dict[str, Any] = d.some(interleaved=d.integer(0, 1)) | (
        {"num_heads": heads} if flat else {}
    )
    return Form(
        operator, [x, *tables, ids], attributes | ({"rotary_embedding_dim": part} if part else {})
    )


@form("Attention")
def attention(d: FormDraw, operator: str) -> Form:
    """Grouped heads, masks, scales, caps."""
    d.extremes, d.opset = False, d.choose([23, 24])
    batch, kv, size, width = d.integer(1, 2), d.integer(1, 2), d.integer(1, 4), d.integer(1, 4)
    heads, rows, columns = kv * d.integer(1, 2), d.integer(1, 4), d.integer(1, 5)
    q = d.array("float32", (batch, heads, rows, size))
    k, v = (
        d.array("float32", (batch, kv, columns, size)),
        d.array("float32", (batch, kv, columns, width)),
    )
    mask = None
    if d.flag():
        mask = d.array(
            d.choose(["float32", "bool"]), d.broadcast((batch, heads, rows, columns))[-4:]
        )
        mask = mask if mask.ndim >= 2 and mask.shape[-1] == columns else None
    attributes = {"is_causal": 1} if d.flag(0.3) else {}
    attributes |= d.some(scale=0.5, softcap=d.choose([0.0, 2.0]))
    return Form(operator, [q, k, v, *([mask] if mask is not None else [])], attributes)
