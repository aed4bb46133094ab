"""The package `ray`, which only those need who use a cluster."""

from __future__ import annotations

from typing import Any

from tvm_hetero.errors import UsageError


def import_ray() -> Any:
    """The package `ray`.

    Raises
    ------
    UsageError
        If it is not installed; the extra that has it is named.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"a cluster needs Ray, which cannot be imported ({error}); install it with: "
            "pip install 'tvm_hetero[ray]'"
        ) from None
    return ray
