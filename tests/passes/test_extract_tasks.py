"""Tasks, tensors and kernels of a lowered module."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from tests.models import branchy, lowered, two_cpus
from tvm_hetero.errors import ModelError
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lowered_main import read_main


@pytest.fixture(scope="module")
def extracted():
    return extract_tasks(lowered(branchy(), two_cpus()))


def test_every_kernel_call_is_one_task_and_views_are_none(extracted):
    calls = extracted.main.calls
    assert len(extracted.graph) == len(calls)
    assert [task.id for task in extracted.graph.tasks] == list(extracted.main.task_ids)
    assert not any("reshape" in task.op for task in extracted.graph.tasks)


def test_ids_are_unique_though_kernels_repeat():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            once = builder.emit(relax.op.nn.softmax(x))
            out = builder.emit_output(relax.op.nn.softmax(once))
        builder.emit_func_output(out)
    tasks = extract_tasks(lowered(builder.get(), two_cpus()))
    assert len(tasks.graph) == 2
    assert len(tasks.kernels) == 1
    assert [task.op for task in tasks.graph.tasks] == [tasks.kernels[0].name] * 2


def test_outputs_of_one_kernel_are_tensors_of_their_own(extracted):
    split = next(c for c in extracted.main.calls if c.is_tuple)
    name = extracted.main.task_ids[split.position]
    tensors = extracted.graph.outputs[name]
    assert {tensor.name for tensor in tensors} == {f"{name}:0", f"{name}:1"}
    assert all(tensor.bytes == 16 * 64 * 4 for tensor in tensors)


def test_a_tensor_read_through_a_view_is_an_edge(extracted):
    dense = next(t for t in extracted.graph.tasks if "dense" in t.op)
    (tensor,) = extracted.graph.inputs[dense.id]
    assert tensor.bytes == 16 * 64 * 4
    assert extracted.graph.task(tensor.src).output_bytes == tensor.bytes


def test_sizes_and_names(extracted):
    stem = extracted.graph.tasks[0]
    assert stem.weight_bytes == 16 * 4 * 9 * 4
    assert stem.flops >= 2 * 16 * 4 * 9 * 64
    assert stem.bytes == 4 * (4 * 64 + 16 * 4 * 9 + 16 * 64)
    assert extracted.inputs == ("in/x", "y")
    assert extracted.outputs == ("probabilities", "features")
    assert extracted.input_readers[0] == (stem.id,)
    assert len(extracted.input_readers[1]) == 1


def test_results_name_their_roots(extracted):
    probabilities, features = extracted.output_roots
    assert probabilities.call == len(extracted.main.calls) - 1
    assert features.call is not None
    assert extracted.graph.successors[extracted.main.task_ids[features.call]]


def test_a_module_that_is_not_lowered_is_refused_with_the_binding():
    with pytest.raises(ModelError, match=r"(?s)conv2d.*neither a call of a kernel nor a view"):
        read_main(branchy())


def test_a_module_without_main_is_refused():
    mod = tvm.IRModule({"other": branchy()["main"].without_attr("global_symbol")})
    with pytest.raises(ModelError, match="no function 'main'; it has: other"):
        read_main(mod)


def test_a_module_that_computes_nothing_is_refused():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(x)
        builder.emit_func_output(out)
    with pytest.raises(ModelError, match="computes nothing"):
        extract_tasks(builder.get())


def test_an_unknown_dimension_is_refused_with_the_cure():
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x))
        builder.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(builder.get())
    with pytest.raises(ModelError, match="--shape"):
        read_main(mod)
