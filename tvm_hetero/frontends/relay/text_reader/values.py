"""What stands in a Relay text for a value: numbers, and the attributes of operators.

attribute  name=value
value      number  "text"  [value, ...]  True  None  meta[class][number]  Name(...)
"""

from __future__ import annotations

import math
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.arrays import dtype_of
from tvm_hetero.frontends.relay.core.program import RelayDevice, Unsupported
from tvm_hetero.frontends.relay.text_reader.lexer import Token
from tvm_hetero.frontends.relay.text_reader.token_stream import Words
from tvm_hetero.util.untrusted_names import printable

_SUFFIXES = {"f": "float32", "h": "float16", "": "int32", "bf16": "bfloat16"}


class ParsedValues(Words):
    """Reads attributes."""

    def attribute(self, found: dict[str, Any]) -> None:
        """Read ``name=value`` into `found`."""
        name = self.take()
        if name.kind != "name" or name.text in found:
            raise self.error(f"expected an attribute, got '{printable(name.text, 40)}'", name)
        self.expect("=")
        found[name.text] = self._value()

    def _value(self) -> Any:
        """An attribute's value: plain, a list, or an object of the metadata."""
        word = self.take()
        if word.kind == "number":
            return number_of(word)[0]
        if word.kind == "text":
            return _unquoted(word.text)
        if word.kind == "sign" and word.text in "[(":
            return self._values("]" if word.text == "[" else ")")
        if word.kind == "name":
            return self._named_value(word)
        raise self.error(f"'{printable(word.text, 40)}' where a value is expected", word)

    def _values(self, end: str) -> tuple[Any, ...]:
        self.deeper()
        values = []
        while not self.accept(end):
            values.append(self._value())
            self.skip_types()
            if not self.ahead(end):
                self.expect(",")
        self.depth -= 1
        return tuple(values)

    def _named_value(self, word: Token) -> Any:
        plain = {"None": None, "nullptr": None, "True": True, "False": False}
        if word.text in plain:
            return plain[word.text]
        if word.text in ("inf", "nan"):
            return float(word.text)
        if word.text == "meta":
            return self.meta(word)
        if self.ahead("("):
            return self._described(word)
        return word.text

    def _described(self, word: Token) -> Any:
        """``VirtualDevice(device_type=1, ...)``: what is in it is for people, but two numbers."""
        numbers, depth = {}, 0
        while True:
            each = self.take()
            if each.kind == "end":
                raise self.error(f"'{printable(word.text)}(' is not closed")
            if each.kind == "sign":
                depth += (each.text in "([{") - (each.text in ")]}")
            if depth == 0:
                break
            if depth == 1 and each.kind == "name" and self._equals_number():
                numbers[each.text] = int(self.words[self.at + 1].text)
        if word.text in ("VirtualDevice", "SEScope"):
            kind = numbers.get("device_type", -1)
            return RelayDevice(kind, numbers.get("virtual_device_id", -1)) if kind > 0 else None
        return Unsupported(word.text, self.source.where(word.at))

    def _equals_number(self) -> bool:
        number = self.words[min(self.at + 1, len(self.words) - 1)]
        return self.ahead("=") and number.kind == "number" and number.text.lstrip("-").isdigit()

    def meta(self, word: Token) -> Any:
        """``meta[class][number]``: an object of the metadata."""
        self.expect("[")
        key = self.take().text
        self.expect("]")
        self.expect("[")
        number = self.take()
        self.expect("]")
        found = self.metadata.get(key, [])
        index = int(number.text) if number.text.isdigit() and len(number.text) < 10 else -1
        if not 0 <= index < len(found):
            raise self.error(
                f"meta[{printable(key)}][{printable(number.text)}] is not in the file: print the "
                "module with mod.astext(show_meta_data=True), or save it with tvm.ir.save_json",
                word,
            )
        return found[index]


def number_of(word: Token) -> tuple[Any, str]:
    """A number and its data type."""
    suffix = word.suffix
    if suffix in _SUFFIXES:
        dtype = _SUFFIXES[suffix]
    else:
        dtype = {"f": "float", "i": "int", "u": "uint"}.get(suffix[:1], "") + suffix[1:]
    dtype_of(dtype)
    if len(word.text) > 40:
        raise ModelError(f"'{printable(word.text, 60)}' is no number of {dtype}")
    whole = word.text.lstrip("-").isdigit() and suffix[:1] not in ("f", "h", "b")
    value = int(word.text) if whole else float(word.text)
    if whole and abs(value) >= 2**63:
        raise ModelError(f"{value} does not fit {dtype}")
    if not whole and dtype == "int32":
        dtype = "float32"
    if whole and dtype == "int32" and not -(2**31) <= value < 2**31:
        dtype = "int64"
    spelled = word.text.lstrip("-") in ("inf", "nan")
    if isinstance(value, float) and not (math.isfinite(value) or spelled):
        raise ModelError(f"{printable(word.text)} does not fit {dtype}")
    return value, dtype


def _unquoted(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
