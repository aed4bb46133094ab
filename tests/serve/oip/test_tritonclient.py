"""Triton's own clients, sync and aio, against this server: they were written for another one."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.models import branchy_inputs
from tvm_hetero.executor.tensors import as_array

client = pytest.importorskip("tritonclient.http", reason="make peers installs it")
aio = pytest.importorskip("tritonclient.http.aio")
utils = pytest.importorskip("tritonclient.utils")


@pytest.fixture(scope="module")
def triton(server):
    """The synchronous client."""
    with client.InferenceServerClient(server.url.removeprefix("http://")) as each:
        yield each


@pytest.fixture(scope="module")
def inputs():
    """Of ``branchy``."""
    return dict(zip(("in/x", "y"), branchy_inputs(3), strict=True))


@pytest.fixture(scope="module")
def right(branchy_executor, inputs):
    """What ``branchy`` makes of them."""
    outputs = map(as_array, branchy_executor.run(inputs))
    return dict(zip(branchy_executor.outputs, outputs, strict=True))


def told(module, inputs, is_binary):
    """Inputs in the client's form."""
    found = []
    for name, array in inputs.items():
        each = module.InferInput(name, list(array.shape), utils.np_to_triton_dtype(array.dtype))
        each.set_data_from_numpy(array, binary_data=is_binary)
        found.append(each)
    return found


@pytest.mark.parametrize("is_binary", [True, False])
def test_its_results_are_the_executors_bits(triton, inputs, right, is_binary):
    wanted = [client.InferRequestedOutput(name, binary_data=is_binary) for name in right]
    result = triton.infer(
        "branchy", told(client, inputs, is_binary), outputs=wanted, request_id="7",
        model_version="1", priority=1, timeout=60_000_000,
    )  # fmt: skip
    assert result.get_response()["id"] == "7"
    for name, array in right.items():
        assert result.as_numpy(name).tobytes() == array.tobytes()


def test_without_outputs_it_asks_for_all_as_bytes(triton, inputs, right):
    result = triton.infer("branchy", told(client, inputs, True))
    assert all(result.as_numpy(name).tobytes() == array.tobytes() for name, array in right.items())


def test_requests_at_once_and_compressed_ones_are_answered(server, inputs, right):
    with client.InferenceServerClient(server.url.removeprefix("http://"), concurrency=4) as each:
        waiting = [
            each.async_infer(
                "branchy", told(client, inputs, True), request_compression_algorithm="gzip"
            )
            for _ in range(8)
        ]
        for one in waiting:
            found = one.get_result().as_numpy("features")
            assert found.tobytes() == right["features"].tobytes()


def test_its_aio_client_gets_them_too(server, inputs, right):
    async def ask():
        async with aio.InferenceServerClient(server.url.removeprefix("http://")) as each:
            assert await each.is_server_live()
            assert await each.is_model_ready("branchy")
            results = await asyncio.gather(
                *(each.infer("branchy", told(aio, inputs, binary)) for binary in (True, False))
            )
            with pytest.raises(utils.InferenceServerException, match="there is no model"):
                await each.infer("none", told(aio, inputs, True))
            return [result.as_numpy("features").tobytes() for result in results]

    assert asyncio.run(ask()) == [right["features"].tobytes()] * 2


def test_it_reads_health_metadata_and_configuration(triton):
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("dense", "1")
    assert not triton.is_model_ready("none")
    assert {"binary_tensor_data", "statistics"} <= set(triton.get_server_metadata()["extensions"])
    metadata = triton.get_model_metadata("branchy")
    assert [each["name"] for each in metadata["inputs"]] == ["in/x", "y"]
    assert metadata["outputs"][1] == {"name": "features", "datatype": "FP32", "shape": [16, 64]}
    config = triton.get_model_config("dense")
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (0, [-1, 32])


def test_it_reads_statistics_that_grow_with_what_was_asked(triton):
    x = np.ones((3, 32), "float32")

    def counts():
        [found] = triton.get_inference_statistics("dense")["model_stats"]
        return found

    before = counts()
    triton.infer("dense", told(client, {"input0": x}, True))
    after = counts()
    assert after["inference_count"] - before["inference_count"] == 3
    for phase in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        old, new = before["inference_stats"][phase], after["inference_stats"][phase]
        assert new["count"] - old["count"] == 1, phase
        assert new["ns"] > old["ns"] or phase == "queue"
    assert after["last_inference"] > 1_600_000_000_000
    assert 3 in [each["batch_size"] for each in after["batch_stats"]]
    everyone = triton.get_inference_statistics()["model_stats"]
    assert [each["name"] for each in everyone] == ["branchy", "dense", "kinds"]


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [("other", [1, 32], "there is no input 'other'"), ("input0", [1, 31], "has shape")],
)
def test_its_errors_have_our_texts_and_status(triton, name, shape, text):
    given = client.InferInput(name, shape, "FP32")
    given.set_data_from_numpy(np.ones(shape, "float32"))
    with pytest.raises(utils.InferenceServerException, match=text) as caught:
        triton.infer("dense", [given])
    assert caught.value.status() == "400"


def test_texts_are_refused(triton):
    given = client.InferInput("input0", [1, 32], "BYTES")
    given.set_data_from_numpy(np.array([["a"] * 32], dtype=object))
    with pytest.raises(utils.InferenceServerException, match="BYTES"):
        triton.infer("dense", [given])


def test_a_file_is_never_taken_for_a_model(triton):
    with pytest.raises(utils.InferenceServerException, match="without parameters"):
        triton.load_model("dense", config="{}", files={"file:1/model": b"code"})
    assert triton.is_model_ready("dense")
