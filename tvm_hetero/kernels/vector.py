"""The old name of `facts`."""

from __future__ import annotations

from .facts import AVX2, AVX512, NEON, SSE, VectorUnit, cores, vector_unit

__all__ = ["AVX2", "AVX512", "NEON", "SSE", "VectorUnit", "cores", "vector_unit"]
