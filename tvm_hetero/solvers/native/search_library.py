"""The library of searches in C++: loaded once, and told when searches are to stop."""

from __future__ import annotations

import ctypes
from functools import cache

from tvm_hetero.errors import SolverError
from tvm_hetero.libinfo import LIBRARIES
from tvm_hetero.util.library_errors import explain_load_error
from tvm_hetero.util.search_clock import add_stop

LIBRARY = LIBRARIES / "libtvm_hetero_search.so"


@cache
def search_library() -> ctypes.CDLL:
    """The library; who calls a function of it gives its types.

    Raises
    ------
    SolverError
        If it is not there, cannot be loaded, or is of other sources.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        stop = library.tvm_hetero_search_stop
    except (OSError, AttributeError) as error:
        raise SolverError(
            f"the search: {explain_load_error(LIBRARY, error, 'build it with `make setup`')}"
        ) from error
    stop.argtypes, stop.restype = [ctypes.c_int32], None
    add_stop(lambda is_stopped: stop(int(is_stopped)))
    return library
