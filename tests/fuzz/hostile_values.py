"""Values that no one writes, and changes of protobuf messages by them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

INTEGERS = (
    -(2**63), -(2**31), -(2**31) - 1, -5, -2, -1, 0, 1, 2, 3, 7, 64, 1000, 2**16, 2**31 - 1, 2**31,
    2**32, 2**40, 2**62, 2**63 - 1,
)  # fmt: skip
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 0.5, 1.0, 1e-40, 3e38)
TEXTS = (
    b"",
    b"a",
    b"\0",
    b"x",
    b"SAME_UPPER",
    b"ij,jk->ik",
    b"...",
    b"\xff\xfe",
    b"%s%n",
    b"x" * 999,
)
_WHOLE = frozenset(
    {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_ENUM,
     FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_BOOL}
)  # fmt: skip


class Hostility:
    """Draws from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choose(self, options: Any) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, share: float) -> bool:
        """Whether something of that probability happens."""
        return bool(self.rng.random() < share)

    def integer(self) -> int:
        """A number of which two in three are small."""
        return self.choose(INTEGERS) if self.chance(0.33) else int(self.rng.integers(-3, 9))

    def integers(self) -> list[int]:
        """A list of numbers."""
        return [self.integer() for _ in range(int(self.rng.integers(0, 6)))]

    def mutate_message(self, model: onnx.ModelProto) -> None:
        """Change one field of one message in it, wherever that is."""
        found: list[Message] = []
        _collect(model, found, 12)
        message = self.choose(found)
        fields = [f for f, _ in message.ListFields()] if self.chance(0.8) else []
        field = self.choose(fields or list(message.DESCRIPTOR.fields))
        # Not every value fits every field.
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            self._mutate_field(message, field)

    def mutate_bytes(self, data: bytes) -> bytes:
        """Change, cut or repeat some bytes."""
        changed = bytearray(data)
        for _ in range(int(self.rng.integers(1, 4))):
            place = int(self.rng.integers(len(changed)))
            size = int(self.rng.integers(1, 9))
            kind = int(self.rng.integers(4))
            if kind == 0:
                changed[place] = int(self.rng.integers(256))
            elif kind == 1:
                del changed[place : place + size]
            elif kind == 2:
                changed[place:place] = changed[place : place + size]
            else:
                changed[place] ^= 1 << int(self.rng.integers(8))
        return bytes(changed)

    def _mutate_field(self, message: Message, field: FieldDescriptor) -> None:
        if not field.is_repeated:
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE or self.chance(0.2):
                message.ClearField(field.name)
            else:
                setattr(message, field.name, self._value(field))
            return
        values = getattr(message, field.name)
        kind = int(self.rng.integers(3))
        place = int(self.rng.integers(len(values))) if values else 0
        if kind == 0 and values:
            del values[place]
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if values:
                values.add().CopyFrom(values[place])
        elif kind == 1 and values:
            values[place] = self._value(field)
        else:
            values.append(self.choose(list(values)) if values and kind else self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        if field.cpp_type in _WHOLE:
            return self.integer() if not self.chance(0.1) else self.choose((0, 1, 7, 11, 16))
        if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
            return self.choose(FLOATS)
        text = self.choose(TEXTS)
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        return text if is_bytes else text.decode(errors="ignore")


def _collect(message: Message, found: list[Message], depth: int) -> None:
    found.append(message)
    if not depth:
        return
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                _collect(each, found, depth - 1)
