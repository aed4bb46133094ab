"""A module that comes back from a child is the module, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import ml_dtypes
import numpy as np
import pytest
import tvm
from onnx import helper
from tvm_ffi import structural_equal

from tests.descriptors import descriptors_left, open_descriptors
from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion import memory_files
from tvm_hetero.frontends.onnx.conversion.memory_files import MemoryFiles
from tvm_hetero.frontends.onnx.conversion.module_answer import pack_module, unpack_module
from tvm_hetero.frontends.onnx.graph_import import import_graph
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS


@pytest.fixture
def file() -> Iterator[MemoryFiles]:
    with closing(MemoryFiles()) as made:
        yield made


def test_it_is_the_same_and_each_parameter_needs_its_weight(file: MemoryFiles) -> None:
    weight = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    module = from_onnx(typed_model([node], {"x": weight[:3, :].T}, {"w": weight[:3]}))
    large = from_onnx(typed_model([node], {"x": weight.T}, {"w": weight}))
    for given, weights in ((module, 0), (large, 1)):
        sections = pack_module(given, file)
        origins = json.loads(bytes(sections[0]))
        assert len(origins) == weights
        assert structural_equal(unpack_module(sections, file.mapped()), given)
    sent = [json.dumps(origins * 3).encode(), sections[1], *sections[2:] * 3]
    with pytest.raises(ModelError, match="3 weights for 2 parameters"):
        unpack_module(sent, file.mapped())


def test_large_weights_come_back_through_the_file_and_nothing_else_does(
    file: MemoryFiles,
) -> None:
    weights = np.random.default_rng(0).standard_normal((2, 300, 300)).astype(np.float32)
    names = ("x", "v", "w")
    nodes = [helper.make_node("MatMul", ["x", "v"], ["t"]),
             helper.make_node("MatMul", ["t", "w"], ["y"])]  # fmt: skip
    arrays = dict(zip(names, (weights[0, :3], *weights), strict=True))
    model = typed_model(nodes, {"x": arrays["x"]}, {"v": arrays["v"], "w": arrays["w"]})
    made = import_graph(model, "test", None, DEFAULT_LIMITS, file)
    sections = pack_module(made, file)
    origins = json.loads(bytes(sections[0]))
    assert len(sections) == 2 and len(origins) == 2
    assert structural_equal(unpack_module(sections, file.mapped()), from_onnx(model))
    # What says that it lies elsewhere, or is not all there, is refused.
    starts = [(0, start) for start in (-1, 4, 1 << 40, 1 << 70, "0", 4096 * 1000)]
    for place in (*starts, 0, (0,), ("0", 0), (-1, 0), (1, 0), (1 << 40, 0), (1 << 70, 0)):
        lying = json.dumps([{**origins[0], "place": place}, origins[1]]).encode()
        with pytest.raises(ModelError, match="is no module"):
            unpack_module([lying, *sections[1:]], file.mapped())
    named = bytes(sections[1]).replace(b'"relax.', '"\u202erelax.'.encode())
    with pytest.raises(ModelError, match=r"is no module .*\\u202erelax") as refused:
        unpack_module([sections[0], named], file.mapped())
    assert str(refused.value).isprintable()
    with pytest.raises(PermissionError):  # by a child that lives still
        file.clear()
    file_of_none = MemoryFiles()
    with closing(file_of_none), pytest.raises(ModelError, match="is no module"):
        unpack_module(sections, file_of_none.mapped())


def test_a_file_keeps_every_type_and_what_was_mapped_outlives_it() -> None:
    with closing(MemoryFiles()) as file:
        numbers = np.arange(1 << 19) % 100
        arrays = [numbers.astype(kind) for kind in ("int64", "float16", "bool", "uint8")]
        arrays.append(arrays[0].reshape(-1, 2).T)  # not contiguous
        tensors = [file.tensor(array) for array in arrays]
        assert all(file.place_of(tensor) is not None for tensor in tensors)
        small = file.tensor(np.zeros(3))
        assert file.place_of(small) is None
        packed = file.tensor(numbers.astype(ml_dtypes.bfloat16))  # no type of NumPy's own
        assert (str(packed.dtype), file.place_of(packed)) == ("bfloat16", None)
        mapped = file.mapped()
    for array, tensor in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
        assert str(tensor.dtype) == array.dtype.name
    np.testing.assert_array_equal(np.frombuffer(mapped[0], np.int64, 1 << 19), arrays[0])
    assert isinstance(tensors[0], tvm.runtime.Tensor)


def test_what_is_kept_of_a_large_model_keeps_little_besides_itself() -> None:
    """An embedding that is used as it is kept the weights of all layers in memory."""
    with closing(MemoryFiles()) as files:
        layer = np.zeros(1 << 20)
        places = [files.place_of(files.tensor(layer)) for _ in range(40)]
        sizes = [len(each) for each in files.mapped()]
    used = [size for size in sizes if size]
    assert sum(used) == 40 * layer.nbytes and None not in places
    assert len(used) == len({place[0] for place in places if place}) >= 8
    for before, size in zip(np.cumsum([0, *used]), used, strict=False):
        assert size <= max(2 * layer.nbytes, layer.nbytes + int(before + size) // 8)


def test_the_last_file_takes_all_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "_FILES", 2)
    monkeypatch.setattr(memory_files, "_LEAST", 1)
    with closing(MemoryFiles()) as files:
        tensors = [files.tensor(np.full(1 << 16, n)) for n in range(4)]
        assert [files.place_of(t) for t in tensors] == [(0, 0), (1, 0), (1, 1 << 19), (1, 1 << 20)]


def test_where_few_files_may_be_open_there_are_fewer() -> None:
    with descriptors_left(20), closing(MemoryFiles()) as files:
        assert 2 <= len(files.mapped()) <= 12


def test_weights_hold_no_descriptors_however_many_they_are() -> None:
    """A child had one open for each large weight: a model of a thousand did not survive it."""
    with closing(MemoryFiles()) as files:
        before = open_descriptors()
        tensors = [files.tensor(np.full(1 << 15, float(n))) for n in range(20)]
        mapped = files.mapped()
        assert open_descriptors() <= before
    assert [tensor.numpy()[-1] for tensor in tensors] == list(range(20))
    assert len(mapped[0]) == 20 << 18
