"""What the server does not take is told with what was given and what was expected."""

from __future__ import annotations

import gzip
import json
import socket
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.serve.oip.asking import LENGTH, as_bytes, as_json, infer, outputs_of

X = np.ones((1, 32), "float32")
INPUT = {"name": "input0", "shape": [1, 32], "datatype": "FP32", "data": [1] * 32}


def changed(**members):
    """A request whose input has other members."""
    return {"inputs": [{**INPUT, **members}]}


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (b"", "got an empty body"),
        (b"[" * 100_000, "expected `object`, got `array`"),
        (b'{"inputs": ' + b"[" * 100_000, "the request"),
        (b'{"inputs": [], "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b"\x93NUMPY\x01\x00", "Content-Type: application/x-npy"),
        ({}, "missing required field `inputs`"),
        ({"inputs": []}, "input 'input0' is missing"),
        ({"inputs": [INPUT, INPUT]}, "given twice"),
        (changed(name="x" * 257), "length <= 256"),
        (changed(name="other"), "there is no input 'other'"),
        (changed(shape=[1] * 17), "length <= 16"),
        (changed(shape=[-1, 32]), ">= 0"),
        (changed(shape=[1 << 62, 1 << 62]), "has shape"),
        (changed(shape=[1 << 63, 32]), "the request"),
        (changed(shape=[1 << 50, 32]), "expected 4096 at most"),
        (changed(shape=[0, 32], data=[]), "has shape"),
        (changed(shape=["1", 32]), "expected `int`, got `str` - at `$.inputs[0].shape[0]`"),
        (changed(shape=[2, 32]), "its data: expected 64 numbers"),
        (changed(data=[1] * 31), "its data is not 32 numbers"),
        (changed(data=[1] * 31 + ["1"]), "its data"),
        (changed(data=None), "its data"),
        (changed(datatype="FP64"), "has datatype 'FP64'; expected FP32"),
        (changed(datatype="BYTES", data=["a"] * 32), "BYTES (texts) are not taken"),
        (changed(parameters={"binary_data_size": 128}), "both data and binary_data_size"),
        (changed(parameters={"shared_memory_region": "r"}), "'shared_memory_region' is not supp"),
        ({"inputs": [INPUT], "id": "x" * 513}, "length <= 512"),
        ({"inputs": [INPUT], "id": "é" * 300}, "more than 512 bytes"),
        ({"inputs": [INPUT], "outputs": [{"name": "no"}]}, "there is no output 'no'; there are:"),
        ({"inputs": [INPUT], "outputs": [{"name": "output0"}] * 2}, "asked for twice"),
        ({"inputs": [INPUT], "parameters": {"priority": True}}, "priority True"),
        ({"inputs": [INPUT], "parameters": {"timeout": -1}}, "timeout -1"),
        ({"inputs": [INPUT], "parameters": {"timeout": 0.5}}, "whole microseconds"),
        ({"inputs": [INPUT], "parameters": {"sequence_id": 3}}, "'sequence_id' is not supported"),
        ({"inputs": [INPUT], "parameters": {"binary_data_output": 1}}, "true or false"),
        ({"inputs": [INPUT], "parameters": {"nested": {}}}, "parameters"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_told_what_was_expected(server, request_, told):
    reply = infer(server, "dense", request_)
    assert (reply.status, reply.headers["Content-Type"]) == (400, "application/json")
    assert told in reply.json["error"]


def test_what_is_passed_over_changes_nothing(server):
    more = {"model_name": "other", "unknown": [{"data": [1]}], "parameters": {"my_own": "x"}}
    right = outputs_of(infer(server, "dense", as_json({"input0": X})))["output0"]
    found = outputs_of(infer(server, "dense", {**as_json({"input0": X}), **more}))["output0"]
    assert found.tobytes() == right.tobytes()


def test_numbers_that_are_none_are_refused(server):
    text = json.dumps(as_json({"input0": X})).replace("1.0", "NaN", 1).encode()
    assert infer(server, "dense", text).status == 400
    assert infer(server, "dense", text.replace(b"NaN", b"Infinity")).status == 400
    assert infer(server, "dense", text.replace(b"NaN", b"1.0")).status == 200


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda body, head: (body[:-1], head), "127 bytes are left of the body; expected 128"),
        (lambda body, head: (body + b"x", head), "1 bytes are left behind the last tensor"),
        (lambda body, head: (body, head + 1), "the request"),
        (lambda body, head: (body, 10**9), "the body has"),
        (lambda body, head: (body, -1), "expected a number of bytes"),
        (lambda body, head: (body, "x"), "expected a number of bytes"),
        (lambda body, head: (body.replace(b"128", b"124"), head), "and FP32 make 128"),
        (lambda body, head: (body.replace(b"128", b"1e2"), head), "and FP32 make 128"),
        (lambda body, head: (body, None), "the request"),
    ],
)
def test_sizes_of_binary_tensors_have_to_add_up(server, change, told):
    body, headers = as_bytes({"input0": X})
    assert infer(server, "dense", body, headers).status == 200
    body, head = change(body, int(headers[LENGTH]))
    headers = {"Content-Type": headers["Content-Type"]} | ({LENGTH: str(head)} if head else {})
    reply = infer(server, "dense", body, headers)
    assert (reply.status, told in reply.json["error"]) == (400, True), reply.json


def test_a_truth_value_is_a_byte_of_0_or_1(server):
    told = {"name": "bool", "shape": [1, 3], "datatype": "BOOL"}
    head = json.dumps({"inputs": [{**told, "parameters": {"binary_data_size": 3}}]}).encode()
    reply = infer(server, "kinds", head + b"\x00\x01\x02", {LENGTH: str(len(head))})
    assert (reply.status, "missing" in reply.json["error"]) == (400, True)  # of the other inputs
    rest = [
        {"name": name, "shape": [1, 3], "datatype": name.upper(), "data": [1, 2, 3]}
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                     "fp32", "fp64")
    ]  # fmt: skip
    halves = [
        {
            "name": name,
            "shape": [1, 3],
            "datatype": name.upper(),
            "parameters": {"binary_data_size": 6},
        }
        for name in ("fp16", "bf16")
    ]
    told["parameters"] = {"binary_data_size": 3}
    head = json.dumps({
        "inputs": [told, *rest, *halves], "parameters": {"binary_data_output": True}
    }).encode()  # fmt: skip
    reply = infer(server, "kinds", head + b"\x00\x01\x02" + b"\x00" * 12, {LENGTH: str(len(head))})
    assert (reply.status, reply.json["error"]) == (400, "input 'bool': a BOOL is a byte of 0 or 1")
    reply = infer(server, "kinds", head + b"\x00\x01\x01" + b"\x00" * 12, {LENGTH: str(len(head))})
    assert outputs_of(reply)["out_bool"].tolist() == [[False, True, True]]


def test_other_forms_are_refused_with_415(server):
    for headers in (
        {"Content-Type": "text/xml"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Encoding": "deflate"},
        {"Content-Encoding": "br"},
    ):
        assert infer(server, "dense", as_json({"input0": X}), headers).status == 415


def test_what_grows_beyond_the_limit_when_it_is_decompressed_is_refused(server):
    bomb = gzip.compress(b" " * (65 << 20))
    reply = infer(server, "dense", bomb, {"Content-Encoding": "gzip"})
    assert (reply.status, "67108864" in reply.json["error"]) == (413, True)
    for broken in (bomb[:-9], b"no gzip", gzip.compress(b"{}") + b"x"):
        reply = infer(server, "dense", broken, {"Content-Encoding": "gzip"})
        assert (reply.status, "gzip" in reply.json["error"]) in ((400, True), (413, False))


def test_methods_and_paths_that_are_not_there_are_told_so_in_json(server):
    for method, path, status in (
        ("GET", "/v2/models/dense/infer", 405), ("POST", "/v2", 405),
        ("PUT", "/v2/models/dense", 405),
        ("DELETE", "/v2/models/none", 405), ("BREW", "/v2/models/dense", 405),
        ("GET", "/v2/models/none", 404), ("GET", "/v2/models/dense/versions/2", 404),
        ("GET", "/v2/models/dense/versions/x", 404), ("POST", "/v2/models/none/infer", 404),
        ("GET", "/v3", 404), ("POST", "/v2/models//infer", 404), ("GET", "/v2/models/%ff", 400),
        ("GET", "/v2/models/dense/../../etc", 404), ("GET", f"/v2/models/{'x' * 257}", 404),
    ):  # fmt: skip
        reply = server.send(method, path, b"{}" if method != "GET" else None, None)
        assert (reply.status, list(reply.json)) == (status, ["error"]), (method, path)
        assert ("Allow" in reply.headers) == (status == 405)


def test_a_deadline_is_kept_while_it_runs_and_at_the_door(server):
    late = infer(server, "dense", as_json({"input0": X}, parameters={"timeout": 1}))
    assert late.status in (503, 504)  # at the door of the queue, or while it waits
    assert "deadline" in late.json["error"]
    by_header = infer(server, "dense", as_json({"input0": X}), {"tvm-hetero-timeout-us": "1"})
    assert by_header.status in (503, 504)
    for value in ("-1", "x", "1" * 16, "1.5"):
        assert infer(server, "dense", b"", {"tvm-hetero-timeout-us": value}).status == 400
    enough = as_json({"input0": X}, parameters={"timeout": 60_000_000, "priority": 1})
    assert infer(server, "dense", enough, {"tvm-hetero-priority": "2"}).status == 200


def test_megabytes_of_numbers_do_not_hold_up_others(server):
    """While one client's numbers are read, another's requests are answered."""
    place = urlsplit(server.url)
    rows = 4096  # as many as a query may have; of numbers too many by one, told when all are read
    data = "[" + "0.5000000000000001," * (32 * rows) + "0.5]"
    body = json.dumps(changed(shape=[rows, 32])).replace(str([1] * 32), data).encode()
    head = f"POST /v2/models/dense/infer HTTP/1.1\r\nHost: {place.netloc}\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = 0
        connection.setblocking(False)
        answer = b""
        while not answer:
            assert server.get("/v2/health/live").status == 200
            answered += 1
            try:
                answer = connection.recv(65536)
            except BlockingIOError:
                time.sleep(0)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answered > 1
