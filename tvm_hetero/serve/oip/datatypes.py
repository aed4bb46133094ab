"""The protocol's names of element types, and ours."""

from __future__ import annotations

from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.util.quote import quote

DTYPES = {
    "BOOL": "bool",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
"""Ours by the protocol's name. `BYTES` is not among them: no model here computes on texts."""

BINARY_ONLY = frozenset({"float16", "bfloat16"})
"""What JSON would round: the protocol calls it problematic, and so it goes as bytes alone."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def datatype_of(dtype: str) -> str:
    """The protocol's name of one of our types; of one that it has not, ours in capitals."""
    return _NAMES.get(dtype) or dtype.upper()


def check_datatype(given: str, name: str, dtype: str) -> None:
    """Compare the type that a client names with the model's.

    Raises
    ------
    RequestError
        If they differ.
    """
    if DTYPES.get(given) == dtype:
        return
    expected = datatype_of(dtype)
    if given == "BYTES":
        raise RequestError(f"input {quote(name)}: BYTES (texts) are not taken; expected {expected}")
    raise RequestError(f"input {quote(name)} has datatype {quote(given)}; expected {expected}")
