"""What was measured, kept: one SQLite file for all models and all programs of a user.

Kernels are found again by what they *are*: a structural hash finds the candidates, the full text
decides. With it goes everything else that a time depends on (`MeasuringPlace`). Results are
committed as they are measured, so an interrupted run loses nothing, and SQLite's locks let several
programs use the file at once. If two of them measure the same kernel, the smaller time stays, as it
would within one run (time on a shared machine only errs upwards).

Beside the times stand links, what whole networks take (`tvm_hetero.cost_models.in_network.costs`),
and what
`tvm-hetero tune` found: for each kernel, as it is before it is scheduled, the best trace and every
candidate that was tried (`tvm_hetero.cost_models.tuning.tuner`).

The file is ``costs.sqlite`` in the folder of `tvm_hetero.util.cache_dir.cache_dir`. It is a cache:
a damaged one is set aside with a warning, and everything is measured again. An older layout is
brought up to date where it stands (`tvm_hetero.cost_models.store.layout`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tvm_hetero.cost_models.store.connection import begin_transaction, connect, unusable
from tvm_hetero.cost_models.store.layout import make_tables
from tvm_hetero.problem.implementation_choice import Timing
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.documents import canonical_json


@dataclass(frozen=True)
class KernelKey:
    """A scheduled kernel. `hash` may collide, `text` (the whole function) may not."""

    hash: str
    text: str


@dataclass(frozen=True)
class MeasuringPlace:
    """Where and how a kernel was measured: everything beside the kernel that the time depends on.

    Attributes
    ----------
    target : canonical text of the TVM target.
    versions : of TVM and of the method of measurement.
    processor : identity of the CPU, or of the GPU.
    cores : the very cores, since cores of one CPU may differ (big and little ones, a busy
        neighbour of a virtual machine).
    """

    target: str
    versions: str
    processor: str
    cores: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """This place as one canonical line."""
        return canonical_json([self.target, self.versions, self.processor, list(self.cores)])


@dataclass(frozen=True)
class Tuning:
    """How the tuning of one kernel for one target stands.

    Attributes
    ----------
    trace : the schedule that beat the rule, as text; None where nothing did so far.
    seconds : what it took, None without a trace.
    rule_seconds : what the rule's schedule took, measured in turns with it.
    trials : candidates that were built and run, those that failed included.
    """

    trace: str | None
    seconds: float | None
    rule_seconds: float
    trials: int


class CostStore:
    """The file of measured costs. Cheap to make: the file is opened when it is first needed."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._given = None if path is None else Path(path)
        self._ready = False

    @cached_property
    def path(self) -> Path:
        """The file; by default in the user's cache."""
        return cache_dir() / "costs.sqlite" if self._given is None else self._given

    def find(self, key: KernelKey, place: MeasuringPlace) -> float | None:
        """Seconds that were measured for this kernel in this place, None if it never was."""
        timing = self.timing(key, place)
        return None if timing is None else timing.seconds

    def timing(self, key: KernelKey, place: MeasuringPlace) -> Timing | None:
        """What was measured for this kernel in this place, None if it never was."""
        with self._transaction() as db:
            row = db.execute(
                "SELECT seconds, spread FROM times WHERE kernel = ? AND place = ?",
                (_kernel_id(db, key), place.text),
            ).fetchone()
        return None if row is None else Timing(*row)

    def add(
        self, key: KernelKey, place: MeasuringPlace, seconds: float, spread: float | None = None
    ) -> None:
        """Keep a measured time (s, > 0) and how far its repeats were apart (s, or None).

        Of two times for the same the smaller stays, with its own spread.
        """
        self.add_all([(key, place, Timing(seconds, spread))])

    def add_all(self, times: Iterable[tuple[KernelKey, MeasuringPlace, Timing]]) -> None:
        """Keep several times as `add` does, in one commit, each of which waits for the disk."""
        with self._transaction(write=True) as db:
            for key, place, timing in times:
                db.execute(
                    "INSERT INTO times VALUES (?, ?, ?, ?) ON CONFLICT (kernel, place) "
                    "DO UPDATE SET seconds = excluded.seconds, spread = excluded.spread "
                    "WHERE excluded.seconds < seconds",
                    (_make_kernel(db, key), place.text, timing.seconds, timing.spread),
                )

    def forget(self, key: KernelKey, place: MeasuringPlace) -> None:
        """Drop a time: the kernel turned out to compute the wrong thing there."""
        with self._transaction(write=True) as db:
            db.execute(
                "DELETE FROM times WHERE kernel = ? AND place = ?",
                (_kernel_id(db, key), place.text),
            )

    def find_tuned(self, key: KernelKey, target: str) -> str | None:
        """The trace that beat the rule for this unscheduled kernel, None where none did.

        Parameters
        ----------
        key : `kernel_key` of the unscheduled function.
        target : text of the TVM target, ``str(device_target(device))``. Traces of another
            version of TVM are not found.
        """
        tuning = self.tuning(key, target)
        return None if tuning is None else tuning.trace

    def tuning(self, key: KernelKey, target: str) -> Tuning | None:
        """How tuning this unscheduled kernel stands, None if it was never begun."""
        with self._transaction() as db:
            row = db.execute(
                "SELECT trace, seconds, rule_seconds, trials FROM tuned "
                "WHERE kernel = ? AND target = ?",
                (_kernel_id(db, key), _here(target)),
            ).fetchone()
        return None if row is None else Tuning(*row)

    def set_tuning(self, key: KernelKey, target: str, tuning: Tuning) -> None:
        """Keep how tuning a kernel stands; what was kept before is replaced."""
        with self._transaction(write=True) as db:
            db.execute(
                "INSERT OR REPLACE INTO tuned VALUES (?, ?, ?, ?, ?, ?)",
                (
                    _make_kernel(db, key),
                    _here(target),
                    tuning.trace,
                    tuning.seconds,
                    tuning.rule_seconds,
                    tuning.trials,
                ),
            )

    def candidates(self, key: KernelKey, target: str) -> dict[str, float | None]:
        """Every trace that was tried, in order, with its seconds; None where it gave no time."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT trace, seconds FROM candidates WHERE kernel = ? AND target = ? ORDER BY id",
                (_kernel_id(db, key), _here(target)),
            ).fetchall()
        return dict(rows)

    def add_candidate(self, key: KernelKey, target: str, trace: str, seconds: float | None) -> None:
        """Keep that a trace was tried (s, or None where it failed)."""
        with self._transaction(write=True) as db:
            db.execute(
                "INSERT OR REPLACE INTO candidates (kernel, target, trace, seconds) "
                "VALUES (?, ?, ?, ?)",
                (_make_kernel(db, key), _here(target), trace, seconds),
            )

    def find_link(self, place: str) -> tuple[float, float] | None:
        """Latency (s) and bandwidth (bytes/s) of a link that was measured, or None."""
        with self._transaction() as db:
            select = "SELECT latency, bandwidth FROM links WHERE place = ?"
            row = db.execute(select, (place,)).fetchone()
        return None if row is None else (float(row[0]), float(row[1]))

    def add_link(self, place: str, latency: float, bandwidth: float) -> None:
        """Keep what was measured of a link (s, bytes/s)."""
        with self._transaction(write=True) as db:
            db.execute("INSERT OR REPLACE INTO links VALUES (?, ?, ?)", (place, latency, bandwidth))

    def find_network(self, key: str) -> dict[str, Any] | None:
        """What was measured of a whole network (see `tvm_hetero.cost_models.in_network.costs`), or
        None."""
        with self._transaction() as db:
            row = db.execute("SELECT seconds FROM networks WHERE key = ?", (key,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def add_network(self, key: str, seconds: Mapping[str, Any]) -> None:
        """Keep what was measured of a whole network; what was kept before is replaced."""
        with self._transaction(write=True) as db:
            values = (key, canonical_json(seconds))
            db.execute("INSERT OR REPLACE INTO networks VALUES (?, ?)", values)

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction on a connection of its own: safe from any thread and after a fork."""
        if not self._ready:
            self._prepare()
        try:
            with closing(begin_transaction(self.path, write=write)) as db:
                yield db
                db.execute("COMMIT")  # without it, on any exception, closing rolls back
        except sqlite3.Error as error:
            raise unusable(self.path, error) from None

    def _prepare(self) -> None:
        """Make the file and its tables; set a damaged file aside."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._make_tables()
            except sqlite3.OperationalError:
                raise  # locked, read-only, no space: the file itself may be sound
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                self._make_tables()
        except (OSError, sqlite3.Error) as error:
            raise unusable(self.path, error) from None
        self._ready = True

    def _make_tables(self) -> None:
        with closing(connect(self.path)) as db:
            make_tables(db)

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Move a damaged file out of the way, under the first free name."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        os.replace(self.path, aside)
        # A journal left behind would be played back into the new file.
        self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
        warnings.warn(
            f"the store of measured costs {self.path} is damaged ({error}); it was moved to "
            f"{aside.name}, and everything is measured again",
            stacklevel=2,
        )


def _kernel_id(db: sqlite3.Connection, key: KernelKey) -> int | None:
    """The row of exactly this kernel: its hash finds it, its text must be equal in full."""
    rows = db.execute("SELECT id, text FROM kernels WHERE hash = ?", (key.hash,))
    return next((int(row[0]) for row in rows if row[1] == key.text), None)


def _make_kernel(db: sqlite3.Connection, key: KernelKey) -> int:
    """The row of this kernel, made where there is none."""
    known = _kernel_id(db, key)
    if known is not None:
        return known
    insert = "INSERT INTO kernels (hash, text) VALUES (?, ?)"
    return int(db.execute(insert, (key.hash, key.text)).lastrowid or 0)


def _here(target: str) -> str:
    """The key of tuning: traces are instructions to one version of TVM."""
    return canonical_json([target, f"tvm {version('apache-tvm')}"])
