"""More clients of others: one made from the protocol's own document, curl, and a fuzzer."""

from __future__ import annotations

import csv
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.draws import draws
from tests.serve.oip.asking import as_json, as_npy
from tvm_hetero.executor.tensors import as_array

openapi = pytest.importorskip("open_inference.openapi.client", reason="make peers installs it")
schemathesis = pytest.importorskip("schemathesis")
LOCUST = Path(__file__).parents[3] / "build" / "locust" / "bin" / "locust"


def test_the_client_made_from_the_protocols_document_understands_all_answers(
    server, dense_executor
):
    from open_inference.openapi.errors import NotFoundError
    from open_inference.openapi.types import InferenceRequest, RequestInput

    client = openapi.OpenInferenceClient(base_url=server.url)
    client.check_server_liveness()  # they raise for any status but 200
    client.check_server_readiness()
    client.check_model_readiness(model_name="dense")
    with pytest.raises(NotFoundError):
        client.check_model_readiness(model_name="none")
    assert client.read_server_metadata().name == "tvm_hetero"
    metadata = client.read_model_metadata(model_name="dense")
    assert [(each.name, each.shape) for each in metadata.outputs] == [("output0", [-1, 10])]
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(1, 32)
    given = RequestInput(name="input0", shape=[1, 32], datatype="FP32", data=x.ravel().tolist())
    answer = client.model_infer(model_name="dense", request=InferenceRequest(inputs=[given]))
    [right] = map(as_array, dense_executor.run({"input0": x}))
    found = np.array(answer.outputs[0].data.__root__, "float32")
    assert found.tobytes() == right.tobytes()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sends_an_array_and_saves_one(server, dense_executor, tmp_path):
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(1, 32)
    (tmp_path / "x.npy").write_bytes(as_npy(x))
    command = [
        "curl", "--silent", "--show-error", "--fail", "--output", "y.npy",
        "--header", "Content-Type: application/x-npy", "--header", "Accept: application/x-npy",
        "--data-binary", "@x.npy", f"{server.url}/v2/models/dense/infer",
    ]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    [right] = map(as_array, dense_executor.run({"input0": x}))
    assert np.load(tmp_path / "y.npy").tobytes() == right.tobytes()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_needs_no_header_for_json(server):
    import json

    text = json.dumps(as_json({"input0": np.ones((1, 32), "float32")}))
    command = ["curl", "--silent", "-d", text, f"{server.url}/v2/models/dense/infer"]
    said = subprocess.run(command, check=True, timeout=60, capture_output=True).stdout
    assert json.loads(said)["outputs"][0]["shape"] == [1, 10]


@pytest.mark.skipif(
    not LOCUST.exists(), reason="locust is not there: 'make locust' puts it into build/locust"
)
def test_users_of_locust_are_all_answered(server, tmp_path):
    script = Path(__file__).with_name("locustfile.py")
    told = tmp_path / "told"
    command = [
        LOCUST, "--headless", "--only-summary", "-f", script, "--host", server.url,
        "-u", "4", "-r", "4", "-t", "2s", "--csv", told,
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    with open(f"{told}_stats.csv", encoding="utf-8") as file:
        (row,) = (row for row in csv.DictReader(file) if row["Name"] == "/v2/models/dense/infer")
    assert int(row["Request Count"]) > 4 and int(row["Failure Count"]) == 0


def test_the_document_says_what_the_server_does(server):
    """Schemathesis makes requests of the document, right and wrong ones, and reads the answers."""
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import checks

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    ours = [each for each in operations if each.path.startswith("/v2")]
    assert len(ours) > 15
    wanted = [
        checks.CHECKS.get_one("response_schema_conformance"),
        checks.CHECKS.get_one("status_code_conformance"),
        checks.CHECKS.get_one("content_type_conformance"),
    ]  # fmt: skip
    for operation in ours:
        if "administration" in operation.tags:
            continue  # they take models away

        @given(case=operation.as_strategy())
        @settings(
            max_examples=draws(5), deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def ask(case):
            if "name" in case.path_parameters:
                case.path_parameters["name"] = "dense"
            response = case.call()
            # A deadline that it makes up may be too short: refused, or passed.
            assert response.status_code < 500 or response.status_code in (503, 504)
            case.validate_response(response, checks=wanted)

        ask()
    assert server.get("/v2/health/ready").status == 200
