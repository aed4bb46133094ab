"""Every format of ours, damaged: it is read, or refused at once with one short printable line.

The zoo's files are left out: they come with the package, and nobody is asked to write one.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.artifact.manifest import check_files, check_versions, read_manifest
from tvm_hetero.cluster.description import read_description
from tvm_hetero.cost_models.table import load_costs
from tvm_hetero.decoders.folder import read_facts
from tvm_hetero.errors import FormatError, HeteroError
from tvm_hetero.plan.format import plan_from_dict
from tvm_hetero.plan.kernel_takes import takes_from
from tvm_hetero.planning.requests import load_trace
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.implementation_choice import choices_from_dict
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import parse_document, read_document

PLATFORM: dict[str, Any] = {
    "format": "tvm-hetero/platform/1",
    "name": "two",
    "devices": [
        {"name": "big", "memory": "8GiB", "target": {"kind": "llvm", "mcpu": "x"}, "cores": [0, 1],
         "peak_flops": 1e12, "overlap": True},
        {"name": "pi", "target": "c", "rpc": {"server": "pi:9090", "timeout": "5s"}},
    ],
    "links": [
        {"from": "big", "to": "pi", "bandwidth": "20GB/s", "latency": "5us", "both": True},
        {"fabric": {"node": "node0", "bandwidth": 1e9}},
        {"network": True, "latency": 1e-3},
    ],
}  # fmt: skip
# Keys by which a row's other keys are known: without them the row is of no kind.
KINDS = {"kind", "fabric", "network", "constant"}
PROBLEM: dict[str, Any] = {
    "format": "tvm-hetero/problem/1",
    "name": "net",
    "platform": PLATFORM,
    "tasks": [
        {"id": "a", "op": "conv", "cost": {"big": 0.5, "pi": {"1": 1.0, "4": 3.0}}, "color": "red",
         "implementation": {"big": "tuned"}, "sizes": {"pi": [1, 4]}, "output_bytes": "4kB"},
        {"id": "b", "cost": {"big": 1}, "weight_bytes": 8, "flops": 1e9},
    ],
    "edges": [{"src": "a", "dst": "b", "bytes": 4096, "tensor": "t"}],
    "objective": {"kind": "throughput", "batch": 2, "contiguous": True},
}  # fmt: skip
CALL: dict[str, Any] = {
    "kernel": "k", "task": "a", "written": 1,
    "args": [{"in": 0, "shape": [1, 2], "dtype": "float32"},
             {"constant": "w", "shape": [2], "dtype": "float32"}],
}  # fmt: skip
DOCUMENTS: dict[str, dict[str, Any]] = {
    "platform": PLATFORM,
    "problem": PROBLEM,
    "schedule": {
        "format": "tvm-hetero/schedule/1", "problem": "0" * 64, "solver": "auto",
        "status": "feasible", "seed": 1, "seconds": 0.5, "gap": 0.1, "lower_bound": 0.9,
        "executions": [{"task": "a", "device": "big", "elements": [0], "start": 0, "end": 1}],
        "copies": [{"tensor": "t", "elements": [0], "from": "big", "to": "pi", "start": 1,
                    "end": 2}],
        "objective": {"kind": "latency", "value": 1.0},
        "best_single_device": {"device": "big", "value": 2.0},
        "robust": {"perturbation": 0.1, "samples": 9, "seed": 0, "mean": 1.0, "worst": 2.0},
    },
    "kernels": {
        "format": "tvm-hetero/kernels/1",
        "kernels": [{"kernel": "k", "device": "big", "rule": "packed", "implementation": "tuned",
                     "times": {"rule": {"seconds": 2.0, "spread": 0.1},
                               "tuned": {"seconds": 1.0, "spread": None}},
                     "refused": {"direct": "it crashed"}}],
        "takes": [{"kernel": "k", "device": "big", "written": 1,
                   "args": [{"shape": [1, 3], "dtype": "float32"},
                            {"shape": [3], "dtype": "float32"}]}],
    },
    "costs": {
        "format": "tvm-hetero/costs/1", "kernels": {"k": {"big": 1.0, "pi": {"1": 1.0, "4": 3}}},
    },
    "cluster": {
        "format": "tvm-hetero/cluster/1", "address": "auto", "silence": "5s",
        "nodes": [{"name": "left", "cores": [0]}, {"name": "right", "host": "10.0.0.7"}],
        "network": {"bandwidth": "1GB/s", "latency": "200us"},
    },
    "requests": {
        "format": "tvm-hetero/requests/1",
        "requests": [{"arrival": 0.5, "prompt": 3, "output": 4}],
    },
    "plan": {
        "format": "tvm-hetero/plan/2", "batch": 1,
        "devices": [{"name": "big", "dl_type": 1, "dl_id": 0, "memory": 5}],
        "workers": [{"name": "w", "device": 0, "cores": [0], "role": "compute", "alike": 0}],
        "slots": [{"name": "s", "device": 0, "shape": [1], "dtype": "float32"},
                  {"name": "r", "device": 0}],
        "inputs": [{"name": "x", "slot": 0, "shape": [1], "dtype": "int32", "state": True,
                    "range": [0, 9]}],
        "constants": [{"name": "c", "slot": 1}],
        "outputs": [{"name": "y", "slot": 1, "shape": [1]}],
        "steps": [
            {"kind": "kernels", "name": "a", "worker": 0, "ins": [0], "outs": [1], "scratch": 0,
             "calls": [CALL], "joined": [{"task": "b"}]},
            {"kind": "call", "name": "f", "function": "f", "worker": 0, "ins": [], "outs": [1],
             "remote": [CALL]},
            {"kind": "copy", "name": "m", "worker": 0, "ins": [0], "outs": [1], "to_device": 0},
        ],
    },
    "manifest": {
        "format": "tvm-hetero/artifact/2", "versions": {"tvm_hetero": "1"}, "default": "single",
        "variants": {"single": ["big"]}, "source": {"model": "m.onnx"},
        "files": {"problem.json": "0", "schedule.json": "0", "weights.safetensors": "0",
                  "single/plan.json": "0", "big.so": "0"},
        "decision": {"chosen": "single"},
    },
    "decoder": {
        "format": "tvm-hetero/decoder/1", "family": "gpt2", "length": 64, "batch": 2, "groups": 1,
        "chunk": 4, "vocabulary": 100, "shards": 1, "eos": [0], "weights": "float32",
        "cache": "float16", "source": {"model": "gpt2"},
    },
}  # fmt: skip


def _read_manifest(path: Path) -> object:
    """The manifest, and the first thing that is done with it."""
    manifest = read_manifest(path.parent)
    for check in (
        lambda: check_versions(path.parent, manifest),
        lambda: check_files(path.parent, manifest["files"]),
    ):
        try:
            check()
        except HeteroError as error:
            _check_message(error, path)
    return manifest


def _read_kernels(path: Path) -> object:
    document = read_document(path)
    choices = choices_from_dict(document, str(path))
    return choices, takes_from(document, str(path))


READERS: dict[str, Callable[[Path], object]] = {
    "platform": Platform.load,
    "problem": Problem.load,
    "schedule": Schedule.load,
    "kernels": _read_kernels,
    "costs": load_costs,
    "cluster": read_description,
    "requests": load_trace,
    "plan": lambda path: plan_from_dict(read_document(path), str(path)),
    "manifest": _read_manifest,
    "decoder": lambda path: read_facts(path.parent),
}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.sampled_from(
        [10**400, -(2**70), math.nan, math.inf, -1.5, 1e308, "", "x" * 5000, "\x1b]0;t\a\n",
         "\u202egnp", "\ud800", "big", "5GB/h", "9" * 4000, "*", "../../etc"]
    )
    | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = st.text(max_size=4) | st.sampled_from(["name", "nmae", "k" * 3000, "\x1b[31m", "big"])


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document that can be changed: its container, and its key there."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


@st.composite
def damaged(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """A document of which one to three nodes are replaced, dropped, added or renamed."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            break
        node, key = places[draw(st.integers(0, len(places) - 1))]
        what = draw(st.sampled_from(["replace", "replace", "drop", "add", "rename"]))
        if what == "replace":
            node[key] = draw(VALUES)
        elif what == "drop":
            del node[key]
        elif isinstance(node, list):
            node.insert(key, draw(VALUES) if what == "add" else copy.deepcopy(node[key]))
        elif what == "add":
            node[draw(KEYS)] = draw(VALUES)
        else:
            node[draw(KEYS)] = node.pop(key)
    return document


def _check_message(error: HeteroError, path: Path) -> None:
    # The path is the user's own; how long it is, is no fault of the message.
    message = str(error).replace(str(path), "FILE").replace(str(path.parent), "FOLDER")
    assert len(message) < 500, message
    assert message.isprintable(), message


def _check_read(kind: str, path: Path) -> bool:
    """Whether a file is read; if not, it is refused within a second and a line."""
    start = time.process_time()
    try:
        READERS[kind](path)
    except HeteroError as error:
        _check_message(error, path)
        return False
    finally:
        assert time.process_time() - start < 1
    return True


def _file(kind: str, folder: Path) -> Path:
    (folder / kind).mkdir(exist_ok=True)  # what is beside a manifest, or a decoder.json, counts
    return folder / kind / f"{kind}.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@pytest.mark.parametrize("kind", READERS)
def test_each_document_is_read_as_it_is(kind: str, folder: Path) -> None:
    _file(kind, folder).write_text(json.dumps(DOCUMENTS[kind]))
    READERS[kind](_file(kind, folder))


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=draws(50), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_a_damaged_document_is_read_or_refused(
    kind: str, folder: Path, data: st.DataObject
) -> None:
    document = data.draw(damaged(DOCUMENTS[kind]))
    _file(kind, folder).write_text(json.dumps(document))
    _check_read(kind, _file(kind, folder))


@pytest.mark.parametrize("kind", READERS)
def test_each_misspelt_key_is_refused_with_the_right_one(kind: str, folder: Path) -> None:
    """But where the format lets keys be made up, such as names of devices."""
    free = {"cost", "kernels", "files", "versions", "variants", "source", "decision", "target"}
    original = list(_places(DOCUMENTS[kind]))
    made_up = [node[key] for node, key in original if key in free]
    made_up += [node for made in made_up if isinstance(made, dict) for node in made.values()]
    for i, (node, key) in enumerate(original):
        if not isinstance(key, str) or any(node is made for made in made_up):
            continue
        document = copy.deepcopy(DOCUMENTS[kind])
        where, _ = list(_places(document))[i]
        where[key[:-1] + "_" + key[-1:]] = where.pop(key)
        _file(kind, folder).write_text(json.dumps(document))
        with pytest.raises(HeteroError) as error:
            READERS[kind](_file(kind, folder))
        hinted = f"did you mean {key!r}?" in str(error.value)
        assert hinted or key in KINDS or len(key) < 4 or (kind, key) == ("manifest", "format")


# ------------------------------------------------------------------------ what only YAML can say

BOMB = "x0: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"x{k + 1}: &{chr(98 + k)} [{','.join(['*' + chr(97 + k)] * 10)}]\n" for k in range(8)
)
PLACES = (
    "name: *i", "devices: *i", "devices: [*i]", "devices: [{name: *i}]",
    "devices: [{name: a, cores: *i}]", "devices: [{name: a, memory: *i}]",
    "devices: [{name: a, target: *i}]", "links: *i", "? *i\n: 1",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_aliases_that_stand_for_a_hundred_million_values_are_refused(
    place: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"format: tvm-hetero/platform/1\n{BOMB}{place}\n")
    start = time.process_time()
    with pytest.raises(FormatError, match=r"aliases \(\*name\) stand for more than 100000 values"):
        Platform.load(path)
    assert time.process_time() - start < 1


def test_merges_that_multiply_are_refused() -> None:
    text = "x0: &a {k: 1}\n" + "".join(
        f"x{k + 1}: &{chr(98 + k)} {{<<: [{','.join(['*' + chr(97 + k)] * 10)}]}}\n"
        for k in range(8)
    )
    with pytest.raises(FormatError, match="aliases"):
        parse_document(text, "x.yaml", as_yaml=True)


def test_an_alias_inside_of_what_it_stands_for_is_refused() -> None:
    with pytest.raises(FormatError, match="stands for what it is in"):
        parse_document("a: &x [1, [*x]]", "x.yaml", as_yaml=True)


def test_a_few_aliases_are_what_they_stand_for() -> None:
    read = parse_document("a: &x {k: [1, 2]}\nb: [*x, *x]", "x.yaml", as_yaml=True)
    assert read["b"] == [{"k": [1, 2]}, {"k": [1, 2]}]


@pytest.mark.parametrize(
    "value",
    [
        '!!bool "abc"', '!!float ""', '!!int ""', '!!timestamp "x"', "1:" * 400 + "1",
        "1:1:" * 200 + "1.5", "!!binary x", "!!set {a, b}", "0x" + "f" * 5000, "2020-01-02", ".inf",
        "!!omap [a: 1]", "!!pairs [a: 1]", "9" * 5000, "'" + "9" * 5000 + "'", "~", "!!null ''",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["{}", "a: {}", "name: {}", "devices: [{{name: {}}}]",
                                   "devices: [{{name: a, memory: {}}}]",
                                   "devices: [{{name: a, cores: [{}]}}]",
                                   "devices: [{{name: a, target: {{kind: c, a: {}}}}}]",
                                   "devices: [{{name: a, rpc: {}}}]",
                                   "links: [{{from: {}, to: a}}]", "{}: a"])  # fmt: skip
def test_values_of_odd_types_are_read_or_refused(value: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"format: tvm-hetero/platform/1\n{place.format(value)}\n")
    _check_read("platform", path)
