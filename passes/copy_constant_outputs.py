"""Give outputs that no kernel makes a kernel of their own: one that copies.

A task graph is made of kernels. An output that is a constant (a table of anchors, what folded away
when inputs were fixed) has none, nor has anything in a model of views alone. Such an output is
copied by a kernel, which is a task like any other; models that have none of this stay as they are.

An output that is an input, or a view of one, needs no copy as long as there is some other kernel:
the executor hands the input on.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te

from tvm_hetero.passes.lowered_main import LoweredMain, read_main, static_shape


def copy_constant_outputs(mod: tvm.IRModule) -> tvm.IRModule:
    """Add copies to a lowered module where it needs them; else it comes back as it is.

    Raises
    ------
    ModelError
        The module is not lowered.
    """
    main = read_main(mod)
    results = main.results()
    copied = [i for i, result in enumerate(results) if main.root(result) is None]
    if not main.calls and not copied:
        copied = [0]
    return _with_copies(mod, main, list(results), copied) if copied else mod


def _with_copies(
    mod: tvm.IRModule, main: LoweredMain, results: list[Any], copied: list[int]
) -> tvm.IRModule:
    """The module in which these results are copies."""
    builder = relax.BlockBuilder(mod)
    made = []
    for i in copied:
        ty = results[i].ty
        kernel = builder.add_func(_copy_kernel(static_shape(ty, f"output {i}"), ty.dtype), "copy")
        call = relax.call_tir(kernel, [results[i]], relax.TensorType(ty.shape, ty.dtype))
        made.append(relax.VarBinding(relax.Var(f"copy_{i}", ty), call))
        results[i] = made[-1].var
    function = main.function
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    result = relax.Tuple(results) if main.returns_tuple else results[0]
    body = relax.SeqExpr([relax.DataflowBlock([*bindings, *made])], result)
    updated = relax.Function(function.params, body, function.ret_ty, attrs=function.attrs)
    module = builder.get()
    module["main"] = updated
    return relax.transform.Normalize()(module)


def _copy_kernel(shape: tuple[int, ...], dtype: Any) -> tvm.tirx.PrimFunc:
    source = te.placeholder(shape, str(dtype), "source")
    copy = te.compute(shape, lambda *at: source(*at), "copy")
    kernel = te.create_prim_func([source, copy]).without_attr("global_symbol")
    return kernel.with_attr("tirx.noalias", True)
