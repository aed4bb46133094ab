"""Products of matrices with transposes, a factor, and an activation after them.

``FusedMatMul`` transposes the last two dimensions (``transA``), and before that may take the matrix
from the first dimension and the last: with ``transBatchA`` an operand of shape (M, b..., K) is
read as (b..., M, K).
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.activations import add_activation, parameter_names
from tvm_hetero.frontends.onnx.microsoft.forms import contributed


@contributed(
    "FusedMatMul",
    operands=2,
    attributes=("alpha", "transA", "transB", "transBatchA", "transBatchB"),
)
def rewrite_fused_mat_mul(r: Rewriting) -> None:
    """Transpose, multiply, and multiply by alpha."""
    _multiply(r)


@contributed("TransposeMatMul", operands=2, attributes=("alpha", "transA", "transB"))
def rewrite_transpose_mat_mul(r: Rewriting) -> None:
    """An older name of the same, without transposed batches."""
    _multiply(r)


def _multiply(r: Rewriting) -> None:
    sides = [_transposed(r, name, side) for name, side in zip(r.inputs, "AB", strict=True)]
    alpha = float(r.attribute("alpha", 1.0))
    if alpha == 1:
        r.add("MatMul", sides, r.outputs)
        return
    product = r.add("MatMul", sides)
    r.add("Mul", [product, r.like(alpha, r.inputs[0])], r.outputs)


@contributed(
    "FusedGemm",
    operands=3,
    attributes=(
        "alpha",
        "beta",
        "transA",
        "transB",
        "activation",
        "activation_alpha",
        "activation_beta",
        "activation_gamma",
    ),
)
def rewrite_fused_gemm(r: Rewriting) -> None:
    """Gemm, and its activation."""
    kept = {name: r.attribute(name) for name in ("alpha", "beta", "transA", "transB")}
    product = r.add("Gemm", r.inputs, **kept)
    activation = str(r.attribute("activation", ""))
    names = parameter_names(activation)
    parameters = [r.attribute(f"activation_{name}") for name in names]
    add_activation(r, activation, parameters, product)


def _transposed(r: Rewriting, name: str, side: str) -> str:
    """Return an operand in the form that MatMul takes."""
    flip, batch = (bool(r.attribute(f"trans{key}{side}", 0)) for key in ("", "Batch"))
    if not flip and not batch:
        return name
    rank = r.rank(name)
    if rank < 2:
        # As ONNX Runtime: a vector is not transposed.
        return name
    order = list(range(rank))
    if batch:
        order = [*order[1:-1], 0, order[-1]]
    if flip:
        order[-2], order[-1] = order[-1], order[-2]
    return r.add("Transpose", [name], perm=order)
