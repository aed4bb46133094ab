"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

__all__: list[str] = []
