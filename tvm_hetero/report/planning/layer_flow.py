"""A layout of layers that many nodes share, for a reader: who holds what, and how good that is."""

from __future__ import annotations

from typing import Any

from tvm_hetero.planning.helix import LayerFlowAnswer, layout_document
from tvm_hetero.util.text_tables import format_table

_HEADERS = ("node", "layers", "computes", "passes")


def layer_flow_text(answer: LayerFlowAnswer) -> str:
    """Each node with its layers, the tokens a second that it could pass and does, and the proof."""
    passed = node_flows(answer)
    rows = [
        (
            node.name,
            f"{held.first}-{held.end - 1}" if held is not None else "none",
            f"{node.rate(held):.1f}",
            f"{passed.get(node.name, 0.0):.1f}",
        )
        for node, held in zip(answer.problem.nodes, answer.layout, strict=True)
    ]
    proof = "optimal" if answer.proven else f"gap {answer.gap:.2%}"
    return (
        f"{format_table(_HEADERS, rows)}\n\n"
        f"{answer.value:.2f} tokens/s; none passes more than {answer.bound:.2f} ({proof})"
    )


def node_flows(answer: LayerFlowAnswer) -> dict[str, float]:
    """Tokens a second through each node that is in use."""
    passed: dict[str, float] = {}
    for (_, head), flow in sorted(answer.flow.over.items()):
        passed[head] = passed.get(head, 0.0) + flow
    return passed


def layer_flow_dict(answer: LayerFlowAnswer) -> dict[str, Any]:
    """The same for a program."""
    return {
        "tokens_per_second": answer.value,
        "bound": answer.bound,
        "gap": answer.gap,
        "proven": answer.proven,
        "seconds": answer.seconds,
        "layout": layout_document(answer.problem, answer.layout),
        "links": [
            {"from": tail, "to": head, "tokens_per_second": flow}
            for (tail, head), flow in sorted(answer.flow.over.items())
        ],
    }
