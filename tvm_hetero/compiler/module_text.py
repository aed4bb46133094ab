"""A lowered module as text, its weights left out: what an artifact keeps to be placed again.

An artifact's plan says what runs where, and no more. Where devices may be lost (a cluster of
several nodes) the model is divided again over those that are left, and for that its module is
wanted. The weights are in the artifact already; in the text they are parameters of ``main``, which
come after the model's own and are bound again when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_hetero.errors import FormatError
from tvm_hetero.kernels import operations  # noqa: F401  (what is read may name them)
from tvm_hetero.passes.emit_views import ViewEmitter
from tvm_hetero.passes.lowered_main import LoweredMain, TensorSource, read_main
from tvm_hetero.passes.split_segments import constant_names
from tvm_hetero.util.documents import check_format, check_keys, parse_document
from tvm_hetero.util.untrusted_names import printable

FORMAT = "tvm-hetero/module/1"


def module_text(mod: tvm.IRModule) -> str:
    """The text of a lowered module."""
    lifted, names = _without_weights(mod, read_main(mod))
    module = json.loads(tvm.ir.save_json(lifted))
    return json.dumps({"format": FORMAT, "weights": names, "module": module})


def module_from_text(text: str, weights: Mapping[str, Any]) -> tvm.IRModule:
    """The module of a text, with its weights (by their names in the artifact).

    Raises
    ------
    FormatError
        If the text is malformed, or a weight is missing.
    """
    where = "the artifact's module"
    document = parse_document(text, where)
    check_format(document, FORMAT, where)
    check_keys(document, where, ["format", "weights", "module"])
    names = document["weights"]
    missing = [name for name in names if name not in weights]
    if missing:
        raise FormatError(f"{where}: there is no weight {missing[0]!r}")
    try:
        module = tvm.ir.load_json(json.dumps(document["module"]))
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"{where}: TVM {tvm.__version__} does not read it ({printable(error, 200)}); partition "
            "the model again"
        ) from None
    values = {f"w{k}": _tensor(weights[name]) for k, name in enumerate(names)}
    return relax.transform.BindParams("main", values)(module)


def _tensor(value: Any) -> Any:
    return tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value


def _without_weights(mod: tvm.IRModule, main: LoweredMain) -> tuple[tvm.IRModule, list[str]]:
    """The module with its constants as parameters w0, w1, ..., and their names."""
    builder = relax.BlockBuilder()
    names = constant_names(main)
    params = [relax.Var(p.name, p.ty) for p in main.params]
    weight = {
        value: relax.Var(f"w{k}", relax.TensorType(value.shape, str(value.dtype)))
        for k, value in enumerate(names)
    }
    env: dict[TensorSource, Any] = {TensorSource(None, i): param for i, param in enumerate(params)}
    made: dict[int, relax.Var] = {}
    kernels: dict[str, tvm.ir.GlobalVar] = {}

    def tensor(root: TensorSource, _: Any) -> Any:
        if root not in env:
            assert root.call is not None  # every input is there from the start
            env[root] = builder.emit(relax.TupleGetItem(made[root.call], root.index))
        return env[root]

    emitter = ViewEmitter(builder, main, tensor, lambda const, _: weight[const.value])
    attrs = dict(main.function.attrs) if main.function.attrs else {}
    with builder.function("main", [*params, *weight.values()], attrs=attrs):
        with builder.dataflow():
            for call in main.calls:
                name = call.kernel.name_hint
                if name not in kernels:
                    kernels[name] = builder.add_func(mod[call.kernel], name)
                var = emitter.call(call, kernels[name], call.expr.ty_args[0], 0, (0,))
                made[call.position] = var
                if not call.is_tuple:
                    env[TensorSource(call.position, 0)] = var
            results = [emitter.value(expr, (0, 0)) for expr in main.results()]
            value = relax.Tuple(results) if main.returns_tuple else results[0]
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    lifted = builder.get()
    return lifted.with_attrs(dict(mod.attrs)) if mod.attrs else lifted, list(names.values())
