"""The C++ search library: list schedules decoded and annealed at full speed.

`NativeSearch` hands an `Instance` to ``libtvm_hetero_search.so`` (built by ``make setup``; its
interface is in include/tvm_hetero/search.h) and calls it. The library copies all arrays and checks
every number in them. While it works, Python's lock is free, so searches may run in threads.

Sequences. A search moves parts and *fetches*: one for every (tensor, reader), which brings the
tensor to its reader's device. Where a fetch stands in the sequence decides what its hops wait for
(see src/search/general_decoder.h). A sequence may be given without fetches, as a topological order
of the parts; what comes back has both.

Times. What a search finds is an order; `Decoded.keys` turns it into the keys from which
`timing.retime` makes exact times that are no later than those decoded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.native.arrays import ProblemArrays, flatten
from tvm_hetero.solvers.native.results import Decoded, NativeAnswer
from tvm_hetero.solvers.native.search_library import search_library
from tvm_hetero.views.array_types import Int32Array
from tvm_hetero.views.instance import Hop, Instance

__all__ = ["Decoded", "NativeAnswer", "NativeSearch", "available"]


_OK, _BAD_ARGUMENT = 0, 1
# No search of ours runs longer than a day; ctypes wants a number.
_FOREVER = 86_400.0


class Settings(ctypes.Structure):
    """TvmHeteroSearchSettings."""

    _fields_ = (
        ("evaluations", ctypes.c_int64),
        ("work", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("heat", ctypes.c_double),
        ("deadline", ctypes.c_double),
        ("restarts", ctypes.c_int32),
    )


class Result(ctypes.Structure):
    """TvmHeteroSearchResult."""

    _fields_ = (
        ("value", ctypes.c_double),
        ("makespan", ctypes.c_double),
        ("excess", ctypes.c_double),
        ("evaluations", ctypes.c_int64),
        ("work", ctypes.c_int64),
        ("stopped", ctypes.c_int32),
        ("hops", ctypes.c_int32),
    )


class HopTimes(ctypes.Structure):
    """TvmHeteroSearchHop."""

    _fields_ = (
        ("tensor", ctypes.c_int32),
        ("src", ctypes.c_int32),
        ("dst", ctypes.c_int32),
        ("start", ctypes.c_double),
        ("end", ctypes.c_double),
    )


@cache
def _library() -> ctypes.CDLL:
    """The library with its functions' types.

    Raises
    ------
    SolverError
        If it is not there or cannot be loaded.
    """
    library = search_library()
    p, i32, i64, u64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
    result = ctypes.POINTER(Result)
    settings = ctypes.POINTER(Settings)
    types: dict[str, list[Any]] = {
        "create": [ctypes.POINTER(ProblemArrays), ctypes.POINTER(p)],
        "decode": [p, p, p, i32, p, p, p, i32, result],
        "decode_many": [p, p, p, i32, i64, u64, result],
        "anneal": [p, settings, p, p, i32, result],
        "anneal_loads": [p, settings, p, result],
        "complete": [p, settings, p, ctypes.c_double, p, p, p, p, i32, result],
    }
    for name, arguments in types.items():
        function = getattr(library, f"tvm_hetero_search_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.tvm_hetero_search_message.restype = ctypes.c_char_p
    library.tvm_hetero_search_destroy.argtypes = [p]
    library.tvm_hetero_search_destroy.restype = None
    return library


def available() -> bool:
    """Whether the library is there and can be loaded."""
    try:
        _library()
    except SolverError:
        return False
    return True


class NativeSearch:
    """An instance inside the library.

    Raises
    ------
    SolverError
        If the library is missing, or cannot hold the problem.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._handle = ctypes.c_void_p()
        self._library = _library()
        problem, arrays = flatten(instance)
        self._call("create", ctypes.byref(problem), ctypes.byref(self._handle))
        del arrays  # alive until here: the library has copied them

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.tvm_hetero_search_destroy(self._handle)

    @property
    def items(self) -> int:
        """Length of a whole sequence: parts and fetches."""
        return len(self.instance) + sum(len(flow.readers) for flow in self.instance.tensors)

    def decode(self, placement: Sequence[int], order: Sequence[int]) -> Decoded:
        """Time one list schedule.

        Parameters
        ----------
        placement : device of every part.
        order : a topological order of the parts, or a whole sequence.
        """
        places, sequence = self._checked(placement, order)
        n = len(self.instance)
        starts, ends = np.zeros(n), np.zeros(n)
        # A tensor makes at most one hop a device, but for routes that are no trees.
        room = self._most_hops(places)
        while True:
            hops = (HopTimes * room)()
            result = Result()
            self._call(
                "decode", self._handle, places.ctypes.data, sequence.ctypes.data, len(order),
                starts.ctypes.data, ends.ctypes.data, hops, room, ctypes.byref(result),
            )  # fmt: skip
            if result.hops <= room:
                break
            room = result.hops
        made: dict[tuple[int, Hop], tuple[float, float]] = {}
        for hop in hops[: result.hops]:
            made.setdefault((hop.tensor, (hop.src, hop.dst)), (hop.start, hop.end))
        return Decoded(
            result.value, result.makespan, result.excess, tuple(starts.tolist()),
            tuple(ends.tolist()), made,
        )  # fmt: skip

    def _most_hops(self, places: Int32Array) -> int:
        return 1 + sum(
            len({int(places[r]) for r in flow.readers} - {int(places[flow.maker])})
            for flow in self.instance.tensors
        )

    def decode_many(
        self, placement: Sequence[int], order: Sequence[int], count: int, seed: int = 0
    ) -> NativeAnswer:
        """Decode `count` random neighbours from scratch, one after the other (a benchmark)."""
        places, sequence = self._checked(placement, order)
        result = Result()
        self._call(
            "decode_many", self._handle, places.ctypes.data, sequence.ctypes.data, len(order),
            count, seed, ctypes.byref(result),
        )  # fmt: skip
        return self._found(result, places, sequence[: len(order)])

    def anneal(
        self,
        placement: Sequence[int],
        order: Sequence[int],
        *,
        evaluations: int = 0,
        work: int = 0,
        seed: int = 0,
        heat: float = 0.0,
        restarts: int = 1,
        deadline: float = _FOREVER,
    ) -> NativeAnswer:
        """Anneal placement and order for latency, energy or cost.

        Parameters
        ----------
        placement, order : the start, as for `decode`; it may break limits.
        evaluations : candidates to look at; 0 for no limit but `work`.
        work : steps to spend; 0 for no limit but `evaluations`.
        seed : of everything random.
        heat : first temperature, in parts of the value; 0: from what random moves change.
        restarts : how often to warm up again from the best, within the same budget.
        deadline : wall seconds after which it stops at once: a net, not a plan.
        """
        places, sequence = self._checked(placement, order)
        settings = Settings(evaluations, work, seed, heat, deadline, restarts)
        result = Result()
        self._call(
            "anneal", self._handle, ctypes.byref(settings), places.ctypes.data,
            sequence.ctypes.data, len(order), ctypes.byref(result),
        )  # fmt: skip
        return self._found(result, places, sequence)

    def anneal_loads(
        self,
        placement: Sequence[int],
        *,
        evaluations: int = 0,
        work: int = 0,
        seed: int = 0,
        heat: float = 0.0,
        restarts: int = 1,
        deadline: float = _FOREVER,
    ) -> NativeAnswer:
        """Anneal a placement for throughput. Parameters as for `anneal`."""
        places, sequence = self._checked(placement, self.instance.order)
        settings = Settings(evaluations, work, seed, heat, deadline, restarts)
        result = Result()
        self._call(
            "anneal_loads", self._handle, ctypes.byref(settings), places.ctypes.data,
            ctypes.byref(result),
        )  # fmt: skip
        return self._found(result, places, sequence[: len(self.instance)])

    def _checked(
        self, placement: Sequence[int], order: Sequence[int]
    ) -> tuple[Int32Array, Int32Array]:
        """Arrays of the right lengths; what is in them the library checks itself."""
        n = len(self.instance)
        if len(placement) != n or len(order) not in (n, self.items):
            raise SolverError(
                f"expected a placement of {n} parts and an order of {n} parts or of all "
                f"{self.items} items, got {len(placement)} and {len(order)}"
            )
        sequence = np.zeros(self.items, np.int32)
        sequence[: len(order)] = np.asarray(order, np.int32)
        return np.array(placement, np.int32), sequence

    def _found(self, result: Result, places: Int32Array, sequence: Int32Array) -> NativeAnswer:
        n = len(self.instance)
        items = tuple(sequence.tolist())
        return NativeAnswer(
            value=result.value,
            makespan=result.makespan,
            excess=result.excess,
            placement=tuple(places.tolist()),
            order=tuple(item for item in items if item < n),
            sequence=items if len(items) == self.items else (),
            evaluations=result.evaluations,
            work=result.work,
            stopped=bool(result.stopped),
        )

    def call(self, name: str, *arguments: Any) -> None:
        """Call one of the library's functions on this instance; SolverError if it fails."""
        self._call(name, self._handle, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, f"tvm_hetero_search_{name}")(*arguments)
        if code == _OK:
            return
        said = self._library.tvm_hetero_search_message().decode("utf-8", "replace")
        what = "refused its arguments" if code == _BAD_ARGUMENT else "failed"
        raise SolverError(f"the search library's {name} {what}: {said or 'out of memory'}")
