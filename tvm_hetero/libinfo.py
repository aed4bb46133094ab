"""Where this package has what C++ programs are built with; names as in `tvm_ffi.libinfo`.

    c++ -I$(python -c "from tvm_hetero.libinfo import *; print(find_include_path())") ...

`tvm_ffi.libinfo` knows where the headers and the library are that these need. `examples/cpp` in the
repository is a program with all that it takes.
"""

from __future__ import annotations

from pathlib import Path

from tvm_hetero.errors import ArtifactError

__all__ = ["LIBRARIES", "find_include_path", "find_libtvm_hetero_runtime"]

_PACKAGE = Path(__file__).resolve().parent
LIBRARIES = _PACKAGE / "_lib"  # where CMake puts our two shared libraries


def find_include_path() -> str:
    """The folder for the compiler's ``-I``: it has ``tvm_hetero/model.h`` and its like.

    Raises
    ------
    ArtifactError
        If it is not there: the package was copied without it.
    """
    return _found(_PACKAGE / "include")


def find_libtvm_hetero_runtime() -> str:
    """The executor's library, to be linked with.

    Raises
    ------
    ArtifactError
        If it has not been built.
    """
    return _found(LIBRARIES / "libtvm_hetero_runtime.so")


def _found(path: Path) -> str:
    if not path.exists():
        raise ArtifactError(f"{path} is not there: install the package with pip, or run `make`")
    return str(path)
