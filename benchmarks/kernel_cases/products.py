"""Matrix products: those of the light models and of one step of GPT-2 small (12 layers of 768).

With one row every weight is read once for one multiply-add: the memory is the limit, and such a
case counts bytes. With more rows it counts floating-point operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case, Nodes, Shape, moved, node
from .networks import operators

WIDTH, HEADS, HEAD, VOCABULARY, CACHE = 768, 12, 64, 50257, 1024
BATCHES = (1, 16)
PROMPT = 128


def dense() -> list[Case]:
    """Products with constant weights, each once."""
    where: dict[tuple[int, int, int], list[str]] = {}
    for network, shape in _dense_shapes():
        if network not in where.setdefault(shape, []):
            where[shape].append(network)
    return [product(*shape, ", ".join(found)) for shape, found in where.items()]


def product(rows: int, depth: int, columns: int, where: str = "") -> Case:
    """``[rows, depth] x [depth, columns]``, the right side constant."""
    shapes = {"x": (rows, depth)}
    weights = (depth, columns)
    flops = 2.0 * rows * depth * columns
    bytes_ = moved((rows, depth), weights, (rows, columns))
    return Case(
        f"{rows} x {depth} x {columns}",
        (node("MatMul", ("x", "w")),),
        shapes,
        {"w": weights},
        bytes_ if rows == 1 else flops,
        "read" if rows == 1 else "compute",
        where,
    )


def _dense_shapes() -> Iterator[tuple[str, tuple[int, int, int]]]:
    for op in operators("Gemm"):
        (rows, depth), weight = op.shapes[0], op.shapes[1]
        yield op.model, (rows, depth, weight[0] if op.attributes.get("transB") else weight[1])
    for rows in (*BATCHES, PROMPT):
        for depth, columns in [
            (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH),
        ]:  # fmt: skip
            yield f"gpt2 batch {rows}" if rows != PROMPT else "gpt2 prompt", (rows, depth, columns)
        if rows != PROMPT:  # of a prompt only the last row has a next word
            yield f"gpt2 batch {rows}", (rows, WIDTH, VOCABULARY)


def attention() -> list[Case]:
    """Both products of attention over a cache of 1024, and within a prompt of 128."""
    cases = []
    for batch in BATCHES:
        cases += [keys(batch, 1, CACHE), values(batch, 1, CACHE)]
    return [*cases, keys(1, PROMPT, PROMPT), values(1, PROMPT, PROMPT)]


def keys(batch: int, queries: int, cache: int, heads: int = HEADS, head: int = HEAD) -> Case:
    """q.kT; the keys stand in the cache as they came, so the model transposes them."""
    q, k = (batch, heads, queries, head), (batch, heads, cache, head)
    nodes = (node("Transpose", ("k",), "t", perm=[0, 1, 3, 2]), node("MatMul", ("q", "t")))
    return _attention("q.kT", nodes, {"q": q, "k": k}, queries, cache, head)


def values(batch: int, queries: int, cache: int, heads: int = HEADS, head: int = HEAD) -> Case:
    """p.v."""
    p, v = (batch, heads, queries, cache), (batch, heads, cache, head)
    nodes = (node("MatMul", ("p", "v")),)
    return _attention("p.v", nodes, {"p": p, "v": v}, queries, cache, head)


def _attention(
    what: str, nodes: Nodes, inputs: dict[str, Shape], queries: int, cache: int, head: int
) -> Case:
    batch, heads = next(iter(inputs.values()))[:2]
    out = (batch, heads, queries, cache if what == "q.kT" else head)
    name = f"{what} batch {batch}, {heads} heads of {head}, {queries} over {cache}"
    where = "gpt2" if queries == 1 else "gpt2 prompt"
    if queries == 1:
        return Case(name, nodes, inputs, {}, moved(*inputs.values(), out), "read", where)
    flops = 2.0 * batch * heads * queries * cache * head
    return Case(name, nodes, inputs, {}, flops, "compute", where)
