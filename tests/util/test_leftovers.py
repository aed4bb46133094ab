"""Temporary files and folders are gone when the process is, or sooner."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_hetero.util.leftovers import forget, make_file, make_folder, remove, temporary_folder


def test_a_temporary_folder_is_gone_after_the_block(tmp_path: Path) -> None:
    with pytest.raises(KeyError), temporary_folder("a.", tmp_path) as folder:
        (folder / "b").mkdir()
        assert folder.name.startswith("a.") and folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_files_are_ours_alone_and_each_has_its_name(tmp_path: Path) -> None:
    files = {make_file("a.", ".o", tmp_path) for _ in range(20)}
    assert len(files) == 20 == len(list(tmp_path.glob("a.*.o")))
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    for file in files:
        remove(file)
        remove(file)  # it may be gone already
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_goes_with_the_process_and_what_was_renamed_stays(tmp_path: Path) -> None:
    code = f"""
import os
from tvm_hetero.util.leftovers import forget, make_file, make_folder
place = {str(tmp_path)!r}
(make_folder("left.", place) / "x").touch()
make_file("left.", "", place)
kept = make_file("temporary.", "", place)
os.rename(kept, place + "/kept")
forget(kept)
if os.fork() == 0:
    raise SystemExit  # it made nothing, so it removes nothing
os.wait()
assert len(os.listdir(place)) == 3, os.listdir(place)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_place_that_takes_nothing_is_an_error_and_nothing_is_kept() -> None:
    for make in (lambda: make_folder("a.", "/proc"), lambda: make_file("a.", "", "/nowhere")):
        with pytest.raises(OSError):
            make()
    forget(Path("/nowhere/else"))


def test_what_cannot_be_removed_keeps_nothing_else_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    code = f"""
import os
from tvm_hetero.util.leftovers import make_file, remove_all
place = {str(tmp_path)!r}
make_file("gone.", "", place + "/moved")
make_file("left.", "", place)
os.rename(place + "/moved", place + "/elsewhere")
open(place + "/moved", "w").close()  # no folder any more: to look into it is an error
remove_all()
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (7, b"")
    assert {path.name for path in tmp_path.iterdir()} == {"moved", "elsewhere"}


def test_what_is_being_made_while_all_is_removed_is_removed_too(tmp_path: Path) -> None:
    code = f"""
import os, threading, time
from tvm_hetero.util import leftovers
place = {str(tmp_path)!r}
inside = threading.Event()
def slowly(path):
    inside.set()
    time.sleep(0.2)
    path.touch()
def make():
    leftovers._make("late.", "", place, slowly)
    leftovers.make_file("later.", "", place)
threading.Thread(target=make, daemon=True).start()
inside.wait()
leftovers.remove_all()
time.sleep(0.4)  # as a process does that has still more to end
os._exit(7)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 7
    assert list(tmp_path.iterdir()) == []
