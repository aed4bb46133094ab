"""The tables of the store of measured costs, and how older ones are brought up to date.

    kernels     functions: a hash that finds them, and the text that decides
    times       seconds of a scheduled kernel in a place, and their spread (NULL: unknown)
    links       latency and bandwidth between devices
    tuned       the best trace of an unscheduled kernel for a target (NULL: none is faster than
                the rule), its seconds, the rule's, and the trials that were made
    candidates  every trace that was tried (seconds NULL: it failed)
    networks    what the tasks of a whole network take in it, as JSON

The spread and the next two tables came with layout 2, networks with layout 3.
A file of an older layout gets what it lacks, in one transaction; nothing is lost.
"""

from __future__ import annotations

import sqlite3

VERSION = 3
_FIRST = """
CREATE TABLE kernels (
    id INTEGER PRIMARY KEY, hash TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX kernels_by_hash ON kernels (hash);
CREATE TABLE times (
    kernel INTEGER NOT NULL REFERENCES kernels (id), place TEXT NOT NULL,
    seconds REAL NOT NULL CHECK (seconds > 0), PRIMARY KEY (kernel, place)) WITHOUT ROWID;
CREATE TABLE links (
    place TEXT PRIMARY KEY, latency REAL NOT NULL, bandwidth REAL NOT NULL) WITHOUT ROWID;
"""
_SECOND = """
ALTER TABLE times ADD COLUMN spread REAL CHECK (spread >= 0);
CREATE TABLE tuned (
    kernel INTEGER NOT NULL REFERENCES kernels (id), target TEXT NOT NULL,
    trace TEXT, seconds REAL CHECK (seconds > 0),
    rule_seconds REAL NOT NULL CHECK (rule_seconds > 0), trials INTEGER NOT NULL,
    PRIMARY KEY (kernel, target)) WITHOUT ROWID;
CREATE TABLE candidates (
    id INTEGER PRIMARY KEY, kernel INTEGER NOT NULL REFERENCES kernels (id),
    target TEXT NOT NULL, trace TEXT NOT NULL, seconds REAL CHECK (seconds > 0),
    UNIQUE (kernel, target, trace));
"""
_THIRD = """
CREATE TABLE networks (key TEXT PRIMARY KEY, seconds TEXT NOT NULL) WITHOUT ROWID;
"""
_NUMBERS = {
    "times": ("seconds", "spread"),
    "links": ("latency", "bandwidth"),
    "tuned": ("seconds", "rule_seconds", "trials"),
    "candidates": ("seconds",),
}
# What leads from layout i to layout i + 1.
_STEPS = (_FIRST, _SECOND, _THIRD)


def make_tables(db: sqlite3.Connection) -> None:
    """Bring a database, new or old, to today's layout.

    Raises
    ------
    sqlite3.DatabaseError
        If it is damaged or of a layout that is newer than this program.
    """
    known = _layout(db)
    damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise sqlite3.DatabaseError(" ".join(str(damage).split()))
    if known == VERSION:
        _check_values(db)
        return
    db.execute("BEGIN IMMEDIATE")
    # Another program may have done it while we waited for the lock.
    for step in _STEPS[_layout(db) :]:
        for statement in step.split(";\n"):
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")


def _check_values(db: sqlite3.Connection) -> None:
    """SQLite keeps any value in any column, whatever the column's type is.

    Raises
    ------
    sqlite3.DatabaseError
        If some seconds are no number, or infinite.
    """
    for table, columns in _NUMBERS.items():
        odd = " OR ".join(
            f"typeof({name}) NOT IN ('real', 'integer', 'null') OR {name} > 1e300"
            for name in columns
        )
        if db.execute(f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1").fetchone():
            raise sqlite3.DatabaseError(f"{table} has a row in which a time is no number")
    if db.execute("SELECT 1 FROM networks WHERE NOT json_valid(seconds) LIMIT 1").fetchone():
        raise sqlite3.DatabaseError("networks has a row that is not JSON")


def _layout(db: sqlite3.Connection) -> int:
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 <= found <= VERSION:
        raise sqlite3.DatabaseError(f"layout {found}, expected {VERSION}")
    return found
