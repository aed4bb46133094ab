"""What a module says of its tasks in bfloat16: an attribute, which goes where the module goes."""

from __future__ import annotations

import tvm

from tvm_hetero.passes.attributes import PRECISION
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.util.documents import canonical_json, parse_document


def with_promise(mod: tvm.IRModule, promise: PrecisionPromise) -> tvm.IRModule:
    """The module, which says what is promised of its accuracy."""
    return mod.with_attr(PRECISION, canonical_json(promise.to_dict()))


def promise_of(mod: tvm.IRModule) -> PrecisionPromise | None:
    """What `with_promise` has noted; None where all is in float32 as the model says."""
    text = mod.attrs.get(PRECISION) if mod.attrs is not None else None
    where = "the module's precision"
    return None if text is None else PrecisionPromise.from_dict(parse_document(str(text), where))
