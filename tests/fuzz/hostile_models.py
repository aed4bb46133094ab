"""Hostile ONNX models: each is imported or refused, soon and in little memory.

    python -m tests.fuzz.hostile_models [--seconds S] [--count N] [--first SEED] [--keep FOLDER]

A third are random models (`growing`) with fields of their protobuf messages changed, a sixth with
bytes changed, and half are a single operator of onnx's with operands and attributes that no one
would give it. A fault is what is no `ModelError`, a `ModelError` that speaks of a fault of ours,
and what takes longer or more memory than it may. The model under trial lies in FOLDER/current.onnx,
so that it is there if this very process dies.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.hostile_values import FLOATS, TEXTS, Hostility
from tests.fuzz.onnx_models import grow
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

OPSETS = (1, 7, 9, 11, 13, 15, 17, 18, 19, 21, 23, 24)
KINDS = (1, 1, 1, 6, 7, 7, 9, 10, 11, 2, 3, 16, 14)
# Of this process and its children; CPU time. A search for the node that hangs takes some steps.
MOST_SECONDS = 30.0
MOST_BYTES = 3 << 29
_ATTRIBUTES = onnx.AttributeProto.AttributeType


def hostile_model(seed: int) -> bytes:
    """The file of a seed."""
    h = Hostility(seed)
    if h.chance(0.5):
        return one_operator(h).SerializeToString()
    model = grow(seed, int(h.rng.integers(1, 9))).model()
    if h.chance(0.33):
        return h.mutate_bytes(model.SerializeToString())
    for _ in range(int(h.rng.integers(1, 4))):
        h.mutate_message(model)
    return model.SerializeToString()


def one_operator(h: Hostility) -> onnx.ModelProto:
    """A model of one node, which is most likely no good."""
    opset = h.choose(OPSETS)
    known = sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain})
    usable = [name for name in known if onnx.defs.has(name, opset)]
    schema = onnx.defs.get_schema(h.choose(usable), opset, "")
    least, most = schema.min_input, min(schema.max_input, schema.min_input + 4)
    inputs, tensors, names = [], [], []
    for position in range(int(h.rng.integers(least, most + 1))):
        name = "" if h.chance(0.05) else f"i{position}"
        names.append(h.choose(names) if names and h.chance(0.1) else name)
        if names[-1] != f"i{position}":
            continue
        kind, dims = h.choose(KINDS), _dims(h)
        if h.chance(0.5):
            tensors.append(_tensor(h, name, kind, dims))
        else:
            inputs.append(helper.make_tensor_value_info(name, kind, dims))
    outputs = [f"o{i}" for i in range(max(1, schema.min_output + int(h.chance(0.2))))]
    node = helper.make_node(schema.name, names, outputs)
    for attribute in schema.attributes.values():
        if attribute.required or h.chance(0.4):
            node.attribute.append(_attribute(h, attribute))
    results = [helper.make_tensor_value_info(o, h.choose(KINDS), None) for o in outputs]
    for result in results:
        if h.chance(0.8):
            result.type.tensor_type.elem_type = 1
    graph = helper.make_graph([node], "hostile", inputs, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _dims(h: Hostility) -> list[int]:
    rank = int(h.rng.integers(0, 5))
    if h.chance(0.05):
        return [max(0, h.integer()) for _ in range(rank)]
    return [int(h.rng.integers(0 if h.chance(0.1) else 1, 6)) for _ in range(rank)]


def _tensor(h: Hostility, name: str, kind: int, dims: Sequence[int]) -> onnx.TensorProto:
    """A constant; one in three, mostly a list, is of hostile numbers."""
    dims = [min(d, 8) for d in dims]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    count = int(np.prod(dims))
    numbers = [h.integer() if h.chance(0.3) else int(h.rng.integers(-2, 5)) for _ in range(count)]
    with np.errstate(all="ignore"):
        array = np.array(numbers, dtype=np.int64).reshape(dims).astype(dtype)
    tensor = numpy_helper.from_array(array, name)
    if h.chance(0.01):
        tensor.segment.begin = h.integer()
    return tensor


def _attribute(h: Hostility, schema: onnx.defs.OpSchema.Attribute) -> onnx.AttributeProto:
    kind = int(schema.type.value)
    if h.chance(0.03):
        kind = h.choose([_ATTRIBUTES.INT, _ATTRIBUTES.INTS, _ATTRIBUTES.STRING, _ATTRIBUTES.FLOAT])
    made = onnx.AttributeProto(name=schema.name, type=kind)
    if kind == _ATTRIBUTES.INT:
        made.i = h.integer()
    elif kind == _ATTRIBUTES.INTS:
        made.ints.extend(h.integers())
    elif kind == _ATTRIBUTES.FLOAT:
        made.f = h.choose(FLOATS)
    elif kind == _ATTRIBUTES.FLOATS:
        made.floats.extend(h.choose(FLOATS) for _ in range(int(h.rng.integers(0, 5))))
    elif kind == _ATTRIBUTES.STRING:
        made.s = h.choose(TEXTS)
    elif kind == _ATTRIBUTES.STRINGS:
        made.strings.extend(h.choose(TEXTS) for _ in range(int(h.rng.integers(0, 4))))
    elif kind == _ATTRIBUTES.TENSOR:
        made.t.CopyFrom(_tensor(h, "", h.choose(KINDS), _dims(h)))
    elif kind == _ATTRIBUTES.GRAPH:
        made.g.CopyFrom(one_operator(h).graph)
    return made


def attempt(data: bytes, path: Path) -> tuple[str, str]:
    """What became of a file: imported, refused, survived (a child died), or fault; and why."""
    path.write_bytes(data)
    start = used_seconds()
    status, why = "imported", ""
    try:
        from_onnx(path)
    except ModelError as error:
        status, why = "refused", " ".join(str(error).split())
        if "does not survive" in why:
            status = "survived"
        if "fault of tvm_hetero" in why or "report it." in why.replace("please report it, w", ""):
            status = "fault"
    except Exception as error:
        status, why = "fault", f"{type(error).__name__}: {error}"
    seconds = used_seconds() - start
    if seconds > MOST_SECONDS:
        status, why = "fault", f"{seconds:.0f} s: {why}"
    return status, why


def used_seconds() -> float:
    """CPU time of this process and of its children; a hang of theirs is ended by that, too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def most_memory() -> int:
    """Bytes that this process, or the largest of its children, has had."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in both) << 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="folder for models with faults")
    args = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds(args):
            data = hostile_model(seed)
            status, why = attempt(data, folder / "current.onnx")
            counts[status] += 1
            if status in ("fault", "survived"):
                print(seed, status, why[:300], flush=True)
                (folder / f"{status}_{seed}.onnx").write_bytes(data)
    print(f"{most_memory() >> 20} MiB at most")
    greedy = int(most_memory() > MOST_BYTES)
    return conclude(__file__, args.first, counts, counts["fault"] + greedy)


if __name__ == "__main__":
    sys.exit(main())
