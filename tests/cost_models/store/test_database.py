"""The store of measured costs: exact keys, several programs at once, damaged files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cost_models.kernel_samples import python_path
from tests.draws import draws
from tvm_hetero.cost_models.store import (
    CostStore,
    KernelKey,
    MeasuringPlace,
    Tuning,
    connection,
    layout,
)
from tvm_hetero.errors import ProfileError, UsageError

KEY = KernelKey("00ff", "def main(): pass")
PLACE = MeasuringPlace("llvm", "profiled/1, tvm 0", "a CPU", (0,))


@pytest.fixture
def store(tmp_path: Path) -> CostStore:
    return CostStore(tmp_path / "folder" / "costs.sqlite")


def test_finds_what_was_added_and_nothing_else(store: CostStore) -> None:
    assert store.find(KEY, PLACE) is None
    store.add(KEY, PLACE, 0.25)
    assert store.find(KEY, PLACE) == 0.25
    assert CostStore(store.path).find(KEY, PLACE) == 0.25
    for other in (
        MeasuringPlace("cuda", PLACE.versions, PLACE.processor, PLACE.cores),
        MeasuringPlace(PLACE.target, "profiled/2, tvm 0", PLACE.processor, PLACE.cores),
        MeasuringPlace(PLACE.target, PLACE.versions, "another CPU", PLACE.cores),
        MeasuringPlace(PLACE.target, PLACE.versions, PLACE.processor, (1,)),
        MeasuringPlace(PLACE.target, PLACE.versions, PLACE.processor, (0, 1)),
    ):
        assert store.find(KEY, other) is None


def test_kernels_of_equal_hash_are_told_apart_by_their_text(store: CostStore) -> None:
    twin = KernelKey(KEY.hash, KEY.text + " # not the same")
    store.add(KEY, PLACE, 1.0)
    assert store.find(twin, PLACE) is None
    store.add(twin, PLACE, 2.0)
    assert (store.find(KEY, PLACE), store.find(twin, PLACE)) == (1.0, 2.0)


@settings(max_examples=draws(15))
@given(times=st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=5))
def test_the_smallest_time_stays(
    tmp_path_factory: pytest.TempPathFactory, times: list[float]
) -> None:
    store = CostStore(tmp_path_factory.mktemp("store") / "c.sqlite")
    for seconds in times:
        store.add(KEY, PLACE, seconds)
    assert store.find(KEY, PLACE) == min(times)


def test_a_time_of_nothing_is_refused(store: CostStore) -> None:
    with pytest.raises(ProfileError):
        store.add(KEY, PLACE, 0.0)
    assert store.find(KEY, PLACE) is None


def test_the_smaller_time_keeps_its_own_spread(store: CostStore) -> None:
    for seconds, spread in ((2.0, 0.5), (1.0, 0.25), (3.0, None)):
        store.add(KEY, PLACE, seconds, spread)
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT seconds, spread FROM times").fetchall() == [(1.0, 0.25)]
    db.close()


def test_tuning_is_kept_for_its_kernel_and_target(store: CostStore) -> None:
    assert store.tuning(KEY, "avx2") is None and store.candidates(KEY, "avx2") == {}
    store.set_tuning(KEY, "avx2", Tuning(None, None, 2.0, 1))
    assert store.find_tuned(KEY, "avx2") is None
    store.set_tuning(KEY, "avx2", Tuning("trace", 1.0, 2.0, 5))
    assert CostStore(store.path).tuning(KEY, "avx2") == Tuning("trace", 1.0, 2.0, 5)
    assert store.find_tuned(KEY, "avx2") == "trace"
    assert store.find_tuned(KEY, "sse") is None
    for trace, seconds in (("a", 1.0), ("b", None), ("c", 0.5)):
        store.add_candidate(KEY, "avx2", trace, seconds)
    assert list(store.candidates(KEY, "avx2").items()) == [("a", 1.0), ("b", None), ("c", 0.5)]
    assert store.candidates(KEY, "sse") == {}


def test_traces_of_another_tvm_are_not_found(
    store: CostStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_tuning(KEY, "avx2", Tuning("trace", 1.0, 2.0, 5))
    monkeypatch.setattr("tvm_hetero.cost_models.store.database.version", lambda _name: "0.28.0")
    assert store.find_tuned(KEY, "avx2") is None


def test_a_file_of_the_first_layout_is_brought_up_to_date(store: CostStore) -> None:
    store.path.parent.mkdir()
    with sqlite3.connect(store.path) as db:
        db.executescript(f"{layout._FIRST}; PRAGMA user_version = 1;")
        db.execute("INSERT INTO kernels VALUES (1, ?, ?)", (KEY.hash, KEY.text))
        db.execute("INSERT INTO times VALUES (1, ?, 0.25)", (PLACE.text,))
        db.execute("INSERT INTO links VALUES ('a to b', 1e-6, 2e10)")
    db.close()
    assert store.find(KEY, PLACE) == 0.25
    assert store.find_link("a to b") == (1e-6, 2e10)
    store.add(KEY, PLACE, 0.125, 0.01)
    store.set_tuning(KEY, "avx2", Tuning("trace", 1.0, 2.0, 5))
    assert CostStore(store.path).find(KEY, PLACE) == 0.125


def test_links_are_kept(store: CostStore) -> None:
    assert store.find_link("a to b") is None
    store.add_link("a to b", 1e-6, 2e10)
    assert store.find_link("a to b") == (1e-6, 2e10)


def test_two_programs_write_at_once(store: CostStore) -> None:
    code = """if True:
        import sys
        from tvm_hetero.processes.torch_import import hide_torch
        hide_torch()
        from tvm_hetero.cost_models.store import CostStore, KernelKey, MeasuringPlace, Tuning
        store = CostStore(sys.argv[1])
        for i in range(30):
            # The same kernels from both, places of their own, one place in common.
            store.add(KernelKey("h", str(i)), MeasuringPlace("t", "v", sys.argv[2]), 1.0)
            store.add(KernelKey("h", str(i)), MeasuringPlace("t", "v", "both"), float(sys.argv[2]))
    """
    programs = [
        subprocess.Popen([sys.executable, "-c", code, store.path, name], env=python_path())
        for name in ("1", "2")
    ]
    assert [program.wait(60) for program in programs] == [0, 0]
    for i in range(30):
        key = KernelKey("h", str(i))
        assert (
            store.find(key, MeasuringPlace("t", "v", "1"))
            == store.find(key, MeasuringPlace("t", "v", "2"))
            == 1
        )
        assert store.find(key, MeasuringPlace("t", "v", "both")) == 1.0
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT count(*) FROM kernels").fetchone() == (30,)
    db.close()


@pytest.mark.parametrize("damage", ["text", "middle", "version"])
def test_a_damaged_file_is_set_aside(store: CostStore, damage: str) -> None:
    for i in range(40):
        store.add(KernelKey("h", f"{i}" * 50), PLACE, 1.0)
    if damage == "text":
        store.path.write_text("this is no database, whatever its name says" * 100)
    elif damage == "middle":
        raw = bytearray(store.path.read_bytes())
        raw[4096:] = b"\xaa" * (len(raw) - 4096)
        store.path.write_bytes(raw)
    else:
        db = sqlite3.connect(store.path)
        db.execute("PRAGMA user_version=77")
        db.close()
    again = CostStore(store.path)
    with pytest.warns(UserWarning, match=r"damaged .* moved to costs\.sqlite\.damaged-1"):
        assert again.find(KernelKey("h", "0" * 50), PLACE) is None
    again.add(KEY, PLACE, 3.0)
    assert CostStore(store.path).find(KEY, PLACE) == 3.0
    assert store.path.with_name("costs.sqlite.damaged-1").exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE times SET seconds = 'abc'",
        "UPDATE times SET seconds = 9e999",
        "UPDATE times SET spread = x'00'",
        "INSERT INTO links VALUES ('p', 'x', 1.0)",
        "INSERT INTO networks VALUES ('k', '{')",
    ],
)
def test_what_is_no_time_is_damage(store: CostStore, change: str) -> None:
    store.add(KEY, PLACE, 1.0, 0.5)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute(change)
    with pytest.warns(UserWarning, match=r"damaged \((times|links|networks) has a row"):
        assert CostStore(store.path).find(KEY, PLACE) is None


@pytest.mark.parametrize("write", [False, True])
def test_who_waits_for_another_program_says_so(
    store: CostStore, monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    store.add(KEY, PLACE, 1.0)
    monkeypatch.setattr(connection, "PATIENCE", 0.05)
    monkeypatch.setattr(connection, "SILENCE", 0.01)
    use = partial(store.add, KEY, PLACE, 2.0) if write else partial(store.find, KEY, PLACE)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with (
            pytest.warns(UserWarning, match="another program holds"),
            pytest.raises(ProfileError, match=r"held by another program.*end that one") as caught,
        ):
            use()
        assert "delete" not in str(caught.value)
        db.execute("COMMIT")
    use()


def test_a_place_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match=r"cannot be used.*TVM_HETERO_CACHE"):
        CostStore(tmp_path / "file" / "costs.sqlite").find(KEY, PLACE)
    with pytest.raises(ProfileError, match="cannot be used"):
        CostStore(tmp_path).find(KEY, PLACE)


def test_the_default_is_in_the_users_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CostStore().add(KEY, PLACE, 1.0)
    assert (own_cache / "costs.sqlite").exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UsageError, match="TVM_HETERO_CACHE"):
        CostStore().find(KEY, PLACE)
