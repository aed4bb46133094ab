"""Why a shared library does not load, and what to do about it.

The loader's own words name a cause that only some know how to read, and to build again helps with
some of these causes alone.
"""

from __future__ import annotations

from pathlib import Path

from tvm_hetero.util.untrusted_names import printable

# What glibc's loader says, and what that means.
_NOEXEC = ("failed to map segment from shared object", "Operation not permitted")
_DAMAGED = ("file too short", "invalid ELF header", "cannot read file data", "ELF load command")
_FOREIGN = ("wrong ELF class", "Exec format error", "ELF file OS ABI invalid")
_MEMORY = ("Cannot allocate memory",)
_MISSING = ("cannot open shared object file",)


def explain_load_error(path: Path, error: Exception, again: str) -> str:
    """A library's path, what is wrong with it, and what to do.

    Parameters
    ----------
    path : of the library that the user knows, which may not be the one that was opened.
    error : the loader's, or TVM's.
    again : how the library is made again, such as ``build the model again``.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{path}: {_cause(path, lines[-1], again)}"


def _cause(path: Path, text: str, again: str) -> str:
    def says(words: tuple[str, ...]) -> bool:
        return any(each in text for each in words)

    if says(_NOEXEC):
        return (
            f"the library may not be run from {path.parent}: the filesystem is mounted noexec, or "
            "a security policy forbids it; move it to a folder from which programs may run"
        )
    if says(_DAMAGED):
        return f"the library is damaged (cut short, or overwritten); {again}"
    if says(_FOREIGN):
        return f"the library is for another kind of processor; {again} on this machine"
    if says(_MEMORY):
        return "there is no memory left to load the library; end other programs, or raise ulimit -v"
    if not path.exists():
        return f"the library is not there; {again}"
    if says(_MISSING):
        needed = (text.partition(": cannot open")[0].split() or ["?"])[-1]
        return f"the library needs {printable(needed)}, which is not there; install it, or {again}"
    return f"the library does not load ({printable(text, 200)}); {again}"
