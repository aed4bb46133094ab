"""What is worked out of a kernel more than once, kept: its text, and its schedule for a target.

Measuring schedules every kernel in each of its ways, measuring in place does for each device, and
so does a build: of a network of 90 kernels that was 300 schedules and 430 texts, 12 s of CPU time,
where 120 of each are different. A kernel here is the very same body, not an equal one: names of
variables are in texts, and texts are what compiled code is found by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from tvm_hetero.kernels.tir.implementation_attr import without_implementation

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.target import Target

# More kernels than a large network has, on each of two targets.
_MOST = 1024


class _SameKernel:
    """A function, equal to one with the same body, parameters and attributes."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        attrs = {} if func.attrs is None else func.attrs
        said = tuple(sorted((str(name), repr(value)) for name, value in attrs.items()))
        self.func = func
        self._said = said

    def __hash__(self) -> int:
        # Objects of TVM are hashed by who they are.
        return hash((self.func.body, self._said))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _SameKernel) or self._said != other._said:
            return False
        pairs = zip(self.func.params, other.func.params, strict=False)
        return bool(
            self.func.body.same_as(other.func.body)
            and len(self.func.params) == len(other.func.params)
            and all(one.same_as(two) for one, two in pairs)
        )


def kernel_text(func: tirx.PrimFunc) -> str:
    """A kernel's TVMScript, in full, without its name, its target, and how it came about."""
    for name in ("global_symbol", "target"):
        func = func.without_attr(name)
    return _text(_SameKernel(without_implementation(func)))


@lru_cache(_MOST)
def _text(kernel: _SameKernel) -> str:
    return str(kernel.func.script(show_meta=True))


def scheduled_once(
    schedule: Callable[[tirx.PrimFunc, Target], tirx.PrimFunc],
) -> Callable[[tirx.PrimFunc, Target], tirx.PrimFunc]:
    """`schedule`, which is pure, as a function that does no kernel twice for equal targets."""

    @lru_cache(_MOST)
    def known(kernel: _SameKernel, target: _SameTarget) -> tirx.PrimFunc:
        return schedule(kernel.func, target.target)

    def scheduled(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
        return known(_SameKernel(func), _SameTarget(target))

    return scheduled


class _SameTarget:
    """A target, equal to one of the same text."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._text = str(target)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTarget) and self._text == other._text
