"""All operators that are taken, by Relay's names. Each family is a file under `operators`."""

from __future__ import annotations

from tvm_hetero.frontends.relay.operators import (
    convolution,
    creation,
    elementwise,
    image,
    normalization,
    pooling,
    products,
    reductions,
    scatter,
    selection,
    transforms,
)
from tvm_hetero.frontends.relay.operators.rule_context import Rule

FAMILIES = {
    module.__name__.rsplit(".", 1)[-1]: module.RULES
    for module in (
        elementwise, convolution, pooling, normalization, products, reductions, transforms,
        selection, scatter, creation, image,
    )
}  # fmt: skip

TABLE: dict[str, Rule] = {name: rule for rules in FAMILIES.values() for name, rule in rules.items()}
