"""Inference: all forms of a request give the bits that the executor gives."""

from __future__ import annotations

import gzip
import json

import ml_dtypes
import numpy as np
import pytest

from tests.models import branchy_inputs
from tests.serve.oip.asking import LENGTH, as_bytes, as_json, as_npy, infer, outputs_of
from tests.serve.oip.conftest import KINDS
from tvm_hetero.executor.tensors import as_array

ALL_BYTES = {"parameters": {"binary_data_output": True}}


@pytest.fixture(scope="module")
def inputs():
    """Of ``branchy``."""
    return dict(zip(("in/x", "y"), branchy_inputs(), strict=True))


@pytest.fixture(scope="module")
def right(branchy_executor, inputs):
    """What ``branchy`` makes of them."""
    outputs = map(as_array, branchy_executor.run(inputs))
    return dict(zip(branchy_executor.outputs, outputs, strict=True))


def same(found, right) -> bool:
    """Whether outputs are the same to the bit."""
    assert list(found) == list(right)
    return all(
        found[name].dtype == array.dtype
        and found[name].shape == array.shape
        and found[name].tobytes() == array.tobytes()
        for name, array in right.items()
    )


def test_json_and_bytes_in_and_out_give_the_executors_bits(server, inputs, right):
    assert same(outputs_of(infer(server, "branchy", as_json(inputs))), right)
    assert same(outputs_of(infer(server, "branchy", as_json(inputs, **ALL_BYTES))), right)
    body, headers = as_bytes(inputs)
    assert same(outputs_of(infer(server, "branchy", body, headers)), right)
    body, headers = as_bytes(inputs, **ALL_BYTES)
    reply = infer(server, "branchy", body, headers)
    assert LENGTH in reply.headers
    assert same(outputs_of(reply), right)


def test_a_compressed_body_is_the_same_body(server, inputs, right):
    body, headers = as_bytes(inputs)
    packed = gzip.compress(body)
    reply = infer(server, "branchy", packed, {**headers, "Content-Encoding": "gzip"})
    assert same(outputs_of(reply), right)


def test_the_bytes_alone_of_one_input_are_a_request(server, dense_executor):
    x = np.random.default_rng(0).standard_normal((1, 32)).astype("float32")
    [right] = map(as_array, dense_executor.run({"input0": x}))
    reply = infer(server, "dense", x.tobytes(), {LENGTH: "0"})
    assert outputs_of(reply)["output0"].tobytes() == right.tobytes()
    assert infer(server, "dense", x.tobytes()[:-1], {LENGTH: "0"}).status == 400
    assert infer(server, "branchy", x.tobytes(), {LENGTH: "0"}).status == 400
    reply = infer(server, "dense", x[:1].tobytes() * 4097, {LENGTH: "0"})
    assert (reply.status, "expected 4096 at most" in reply.json["error"]) == (400, True)


def test_a_npy_file_is_a_request_and_an_answer(server, dense_executor):
    x = np.random.default_rng(0).standard_normal((1, 32)).astype("float32")
    [right] = map(as_array, dense_executor.run({"input0": x}))
    kind = {"Content-Type": "application/x-npy"}
    reply = infer(server, "dense", as_npy(x), {**kind, "Accept": "application/x-npy"})
    assert reply.headers["Content-Type"] == "application/x-npy"
    assert reply.body == as_npy(right)
    assert (
        outputs_of(infer(server, "dense", as_npy(np.asfortranarray(x)), kind))["output0"].tobytes()
        == right.tobytes()
    )
    wrong = infer(server, "dense", as_npy(x.astype("float64")), kind)
    assert (wrong.status, "x.astype('float32')" in wrong.json["error"]) == (400, True)
    objects = np.array([[{}] * 32], dtype=object)
    assert infer(server, "dense", as_npy(objects), kind).status == 400
    assert infer(server, "dense", as_npy(x)[:-4], kind).status == 400
    assert infer(server, "dense", b"\x93NUMPY\x01\x00\xff\xff{", kind).status == 400


def test_one_output_of_several_is_chosen_for_a_npy_answer(server, inputs, right):
    wants = {"Accept": "application/x-npy"}
    reply = infer(server, "branchy", as_json(inputs), wants)
    assert (reply.status, "?output=probabilities" in reply.json["error"]) == (406, True)
    chosen = as_json(inputs, outputs=[{"name": "features"}])
    assert infer(server, "branchy", chosen, wants).body == as_npy(right["features"])


def test_outputs_are_chosen_each_in_its_form(server, inputs, right):
    wanted = [{"name": "features", "parameters": {"binary_data": True}}, {"name": "probabilities"}]
    reply = infer(server, "branchy", as_json(inputs, outputs=wanted, id="no. 7"))
    assert same(outputs_of(reply), {name: right[name] for name in ("features", "probabilities")})
    told = json.loads(reply.body[: int(reply.headers[LENGTH])])
    assert (told["id"], told["model_name"], told["model_version"]) == ("no. 7", "branchy", "1")
    assert [("data" in each) for each in told["outputs"]] == [False, True]


def test_several_elements_in_one_query_are_answered_as_one_after_the_other(server, dense_executor):
    x = np.random.default_rng(1).standard_normal((5, 32)).astype("float32")
    right = np.concatenate([as_array(dense_executor.run({"input0": row[None]})[0]) for row in x])
    for body, headers in ((as_json({"input0": x}), None), as_bytes({"input0": x})):
        assert outputs_of(infer(server, "dense", body, headers))["output0"].tobytes() == (
            right.tobytes()
        )
    metadata = server.get("/v2/models/dense/versions/1").json
    assert metadata["inputs"] == [{"name": "input0", "datatype": "FP32", "shape": [-1, 32]}]


def test_all_types_of_elements_keep_their_bits(server):
    rng = np.random.default_rng(2)
    inputs = {}
    for name, dtype in KINDS.items():
        if dtype == "bool":
            array = np.array([[True, False, True]])
        elif dtype.startswith(("int", "uint")):
            limits = np.iinfo(dtype)
            array = np.array([[limits.min, limits.max, 7]], dtype)
        else:
            array = rng.standard_normal((1, 3)).astype(getattr(ml_dtypes, dtype, None) or dtype)
        inputs[name.lower()] = array
    right = {f"out_{name}": array for name, array in inputs.items()}
    body, headers = as_bytes(inputs, **ALL_BYTES)
    assert same(outputs_of(infer(server, "kinds", body, headers)), right)
    mixed = as_json(inputs, **ALL_BYTES)
    tail = b""
    for each in mixed["inputs"]:  # those that JSON is not good enough for go as bytes
        if each["datatype"] in ("FP16", "BF16"):
            each["parameters"] = {"binary_data_size": 6}
            tail += inputs[each["name"]].tobytes()
            del each["data"]
    head = json.dumps(mixed).encode()
    reply = infer(server, "kinds", head + tail, {LENGTH: str(len(head))})
    assert same(outputs_of(reply), right)
    refused = infer(server, "kinds", as_json(inputs))
    assert (refused.status, "goes as bytes alone" in refused.json["error"]) == (400, True)


def test_infinite_outputs_go_as_bytes_only(server):
    x = np.full((1, 32), 3e38, "float32")
    refused = infer(server, "dense", as_json({"input0": x}))
    assert (refused.status, "NaN or infinite" in refused.json["error"]) == (400, True)
    reply = infer(server, "dense", as_json({"input0": x}, **ALL_BYTES))
    assert not np.isfinite(outputs_of(reply)["output0"]).all()


def test_a_large_request_is_answered_like_a_small_one(server, dense_executor):
    x = np.random.default_rng(3).standard_normal((400, 32)).astype("float32")
    right = np.concatenate([as_array(dense_executor.run({"input0": row[None]})[0]) for row in x])
    assert len(json.dumps(as_json({"input0": x}))) > 200_000
    for body, headers in ((as_json({"input0": x}), None), as_bytes({"input0": x}, **ALL_BYTES)):
        assert outputs_of(infer(server, "dense", body, headers))["output0"].tobytes() == (
            right.tobytes()
        )
