"""YAML from files that may come from anywhere: what JSON has, within limits that end at once.

PyYAML's own parser is written in Python and takes some 30 us a value. YAML is what people write by
hand; what programs write is JSON. Its aliases stand for copies: some hundred bytes for 10^8 values.
Its numbers to the base 60 (``1:30:00``) are multiplied out digit by digit.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import yaml

from tvm_hetero.errors import FormatError
from tvm_hetero.util.quote import quote
from tvm_hetero.util.strict_json import check_depth, check_encodable

MAX_YAML_BYTES = 2**20
MAX_YAML_VALUES = 30_000
# By how many values the aliases of a file may enlarge it.
MAX_ALIASED_VALUES = 100_000
# Of a number; no more than some twenty of its characters count.
_LONGEST_NUMBER = 1000
_TAG = "tag:yaml.org,2002:"


def parse_yaml(text: str) -> Any:
    """Parse a text that is YAML, of the types that JSON has.

    Raises
    ------
    FormatError
        If it is beyond a limit, repeats a key, or holds what JSON has not.
    yaml.YAMLError, ValueError, ...
        What PyYAML raises of what is no YAML, and of values that their tags belie.
    """
    if len(text) > MAX_YAML_BYTES:
        raise FormatError(f"larger than {MAX_YAML_BYTES} characters of YAML; write it as JSON")
    data = yaml.load(text, Loader=_StrictLoader)  # a SafeLoader
    check_depth(data)
    check_encodable(data)
    return data


class _StrictLoader(yaml.SafeLoader):
    """YAML as `yaml.safe_load` reads it, but for what is not JSON's, repeated keys, and bombs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0

    def get_single_node(self) -> yaml.Node | None:
        """Count what aliases stand for before anything is made of it."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            sizes: dict[int, int] = {}
            if _expanded_size(node, sizes) - len(sizes) > MAX_ALIASED_VALUES:
                raise FormatError(
                    f"its aliases (*name) stand for more than {MAX_ALIASED_VALUES} values; "
                    "write them out"
                )
        return node

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Count the values as they come."""
        self._values += 1
        if self._values > MAX_YAML_VALUES:
            raise FormatError(f"has more than {MAX_YAML_VALUES} values; write it as JSON")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """Refuse numbers of thousands of digits before they are multiplied out."""
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if node.tag in (_TAG + "int", _TAG + "float") and len(node.value) > _LONGEST_NUMBER:
            raise FormatError(f"holds a number of {len(node.value)} characters")
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Look at the keys as they are written, before merges (``<<``) add those of others."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise FormatError(f"key {quote(key.value)} is given twice in one mapping")
                seen.add((key.tag, key.value))
        return node

    def construct_finite(self, node: yaml.ScalarNode) -> float:
        """A float that is a number."""
        value = self.construct_yaml_float(node)
        if not math.isfinite(value):
            raise FormatError(f"expected plain finite numbers, got {quote(node.value)[1:-1]}")
        return value

    def refuse_type(self, node: yaml.Node) -> NoReturn:
        """Refuse what JSON has no word for: it could be neither written nor compared."""
        kind = quote(node.tag.removeprefix(_TAG))[1:-1]
        written = f" {quote(node.value)}" if isinstance(node, yaml.ScalarNode) else ""
        raise FormatError(f"expected text, numbers, lists and mappings, got a {kind}{written}; "
                          "put texts into quotation marks")  # fmt: skip


_StrictLoader.add_constructor(_TAG + "float", _StrictLoader.construct_finite)
for _kind in ("timestamp", "binary", "set", "omap", "pairs"):
    _StrictLoader.add_constructor(_TAG + _kind, _StrictLoader.refuse_type)


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many nodes a node is with every alias written out; `sizes` are those known, by id."""
    if id(node) in sizes:
        if sizes[id(node)] == 0:
            raise FormatError("an alias (*name) stands for what it is in; write it out")
        return sizes[id(node)]
    sizes[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [each for pair in node.value for each in pair]
    sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return sizes[id(node)]
