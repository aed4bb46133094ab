"""Child processes that answer, fall silent, talk nonsense or die."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.waiting import eventually
from tvm_hetero.cost_models.kernels_alone.kernel_values import sample, signed_sample
from tvm_hetero.processes import child_process
from tvm_hetero.processes.child_process import Worker, WorkerLost

CHILD = """
import os, sys, time
from tvm_hetero.processes.child_server import serve

def answer(question):
    what = question["do"]
    if what == "echo":
        print("native code may print")
        os.system("echo so may its children")
        return {"said": question["text"]}
    if what == "raise":
        raise ValueError("a long story\\nthe point")
    if what == "sleep":
        time.sleep(60)
    if what == "busy":
        time.sleep(0.05)
        return {"said": "through"}
    if what == "exit":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if what == "abort":
        os.abort()

if __name__ == "__main__":
    serve(answer)
"""

CHILD_WITH_FILES = """
import hashlib, os
from tvm_hetero.processes.child_server import serve
from tvm_hetero.util.leftovers import make_file

places = []

def answer(question):
    if question["place"]:
        places.append(question["place"])
        make_file("temporary.", "", places[0])
        return {}
    open(os.path.join(places[0], "busy"), "w").close()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes of C: no handler runs meanwhile

if __name__ == "__main__":
    serve(answer)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "a_child"


def test_answers_are_kept_apart_from_what_is_printed(module: str) -> None:
    with Worker(module) as worker:
        assert worker.ask({"do": "echo", "text": "\u00fc\n"}, 30) == {"said": "\u00fc\n"}
        assert worker.ask({"do": "raise"}, 30) == {"error": "the point"}
        assert worker.ask({"do": "echo", "text": "still here"}, 30) == {"said": "still here"}


@pytest.mark.parametrize(
    ("what", "limit", "message", "name"),
    [
        ("exit", 30, "status 3: last words", ""),
        ("abort", 30, "SIGABRT", "SIGABRT"),
        ("nothing", 30, "answered None", ""),
    ],
)
def test_a_lost_child_says_why(
    module: str, what: str, limit: float, message: str, name: str
) -> None:
    with Worker(module) as worker, pytest.raises(WorkerLost, match=message) as lost:
        worker.ask({"do": what}, limit)
    assert lost.value.signal == name


def test_a_stopped_child_is_lost_long_before_its_deadline(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_LOOK", 0.02)
    with Worker(module) as worker:
        worker.ask({"do": "echo", "text": ""}, 30)
        os.kill(worker._process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerLost, match="it was stopped"):
            worker.ask({"do": "echo", "text": ""}, 1000)
        os.kill(worker._process.pid, signal.SIGCONT)


def test_a_child_that_is_busy_is_not_stopped(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_LOOK", 0.001)
    with Worker(module) as worker:
        assert worker.ask({"do": "busy"}, 30) == {"said": "through"}


def test_a_silent_child_is_ended(module: str) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with Worker(module) as worker:
        worker.ask({"do": "echo", "text": ""}, 30)
        started = [c for c in psutil.Process().children() if c.pid not in before]
        with pytest.raises(WorkerLost, match=r"within 0\.2 s"):
            worker.ask({"do": "sleep"}, 0.2)
    assert len(started) == 1 and not started[0].is_running()


def test_a_child_does_not_outlive_its_parent(module: str, tmp_path: Path) -> None:
    parent = os.fork()
    note = tmp_path / "pid"
    if parent == 0:
        try:
            worker = Worker(module)
            worker.ask({"do": "echo", "text": ""}, 30)
            children = psutil.Process().children()
            (tmp_path / "new").write_text(str(children[0].pid))
            (tmp_path / "new").rename(note)
            worker.ask({"do": "sleep"}, 60)
        finally:
            os._exit(1)
    assert eventually(lambda: note.exists() or os.waitpid(parent, os.WNOHANG) != (0, 0))
    child = psutil.Process(int(note.read_text()))
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    gone, alive = psutil.wait_procs([child], timeout=60)
    assert alive == [] or all(c.status() == psutil.STATUS_ZOMBIE for c in alive)
    assert gone or alive


def test_a_missing_module_is_reported() -> None:
    with Worker("no_such_module_of_ours") as worker, pytest.raises(WorkerLost, match="No module"):
        worker.ask({}, 30)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16", "float8_e4m3fn"])
def test_floats_are_between_a_tenth_and_one(dtype: str) -> None:
    values = sample(3, [50, 7], dtype)
    assert values.shape == (50, 7)
    assert values.dtype.itemsize == {"float64": 8, "float32": 4}.get(dtype, values.dtype.itemsize)
    wide = values.astype(np.float64)
    assert wide.min() >= 0.09 and wide.max() <= 1.01
    assert len(np.unique(wide)) > 5
    assert np.array_equal(wide, sample(3, [50, 7], dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
def test_implementations_are_compared_on_both_signs(dtype: str) -> None:
    values = signed_sample(3, [50, 7], dtype).astype(np.float64)
    assert np.array_equal(np.abs(values), sample(3, [50, 7], dtype).astype(np.float64))
    assert 0.3 < np.mean(values < 0) < 0.7


def test_bytes_differ_and_wider_integers_stay_indices() -> None:
    assert len(np.unique(signed_sample(0, [100], "int8"))) > 10
    assert not signed_sample(0, [100], "int32").any()


def test_indices_are_in_range_and_truth_varies() -> None:
    assert not sample(0, [10], "int64").any()
    assert sample(0, [10], "uint8").dtype == np.uint8
    truth = sample(0, [100], "bool")
    assert truth.dtype == bool and truth.any() and not truth.all()


def test_a_child_at_work_in_native_code_removes_its_files_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_child.py").write_text(CHILD_WITH_FILES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    place = tmp_path / "place"
    place.mkdir()
    with Worker("a_child") as worker:
        worker.ask({"place": str(place)}, 30)
        assert len(list(place.iterdir())) == 1
        worker._process.stdin.write(b'{"place": ""}\n')  # type: ignore[union-attr]
        worker._process.stdin.flush()  # type: ignore[union-attr]
        assert eventually(lambda: (place / "busy").exists())
    assert [path.name for path in place.iterdir()] == ["busy"]
