"""Names of before: they work for one release, and say what they are called now.

A public name that is changed stays, by a line in its module, until the release that `gone_in`
names; who uses it meanwhile is told where. In the tests such a warning is an error if it is from
our own code (pyproject.toml), so that we are the first to use the new name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def deprecated_names(module: str, renamed: Mapping[str, str], gone_in: str) -> Callable[[str], Any]:
    """Make a module's `__getattr__` (PEP 562) of names that it had before.

    Parameters
    ----------
    module : its own ``__name__``.
    renamed : what each old name is called now, in the same module.
    gone_in : the version that does not know them any more.

    Examples
    --------
    In a module, so that type checkers know the new names alone::

        if not TYPE_CHECKING:
            __getattr__ = deprecated_names(__name__, {"Entry": "ZooEntry"}, gone_in="0.2")
    """

    def __getattr__(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = renamed[name]
        warnings.warn(
            f"{module}.{name} is called {new} now; the old name goes with version {gone_in}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], new)

    return __getattr__
