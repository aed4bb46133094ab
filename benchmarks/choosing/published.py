"""Published prices: what Mélange's allocations cost, and what the GPUs of Helix's clusters do.

T. Griggs, X. Liu, J. Yu, D. Kim, W.-L. Chiang, A. Cheung, I. Stoica: Mélange: Cost Efficient Large
Language Model Serving by Exploiting GPU Heterogeneity. arXiv 2404.14527, 2024: prices of table 1,
allocations of tables 3 and 6 (Llama 2 7B, Chatbot Arena, 120 and 40 ms a token in the mean). They
were computed by its program from what vLLM 0.2.7 did on each GPU. Dollars an hour throughout.

Helix (arXiv 2406.01566) states no prices and no SLO: GPUs of its clusters have Mélange's prices
here (an A100 of 40 GB costs as much on GCP, a2-highgpu-1g), T4 and V100 those of AWS g4dn.xlarge
and p3.2xlarge, on demand in us-east-1 in 2024.
"""

from __future__ import annotations

from collections.abc import Mapping

PRICES: Mapping[str, float] = {
    "T4": 0.526, "L4": 0.7, "A10G": 1.01, "V100": 3.06, "A100": 3.67, "H100": 7.516,
}  # fmt: skip
# By the limit of a token (ms) and the requests a second: prices of Mélange and of single kinds.
MELANGE: Mapping[int, Mapping[int, Mapping[str, float]]] = {
    120: {
        1: {"Mélange": 1.71, "H100": 7.516, "A100": 3.67, "A10G": 2.02, "L4": 2.1},
        2: {"Mélange": 2.41, "H100": 7.516, "A100": 3.67, "A10G": 3.03, "L4": 3.5},
        4: {"Mélange": 4.37, "H100": 7.516, "A100": 7.34, "A10G": 6.06, "L4": 6.3},
        8: {"Mélange": 7.4, "H100": 15.032, "A100": 11.01, "A10G": 11.11, "L4": 11.9},
        16: {"Mélange": 14.43, "H100": 30.064, "A100": 22.02, "A10G": 20.2, "L4": 23.1},
        32: {"Mélange": 25.81, "H100": 60.128, "A100": 33.03, "A10G": 39.39, "L4": 45.5},
    },
    40: {
        1: {"Mélange": 2.41, "H100": 7.516, "A100": 3.67, "A10G": 3.03, "L4": 3.5},
        2: {"Mélange": 3.67, "H100": 7.516, "A100": 3.67, "A10G": 5.05, "L4": 6.3},
        4: {"Mélange": 5.38, "H100": 7.516, "A100": 7.34, "A10G": 10.1, "L4": 11.9},
        8: {"Mélange": 9.05, "H100": 15.032, "A100": 11.01, "A10G": 16.16, "L4": 23.8},
        16: {"Mélange": 17.07, "H100": 30.064, "A100": 22.02, "A10G": 40.4, "L4": 47.6},
        32: {"Mélange": 30.1, "H100": 52.612, "A100": 33.03, "A10G": 80.8, "L4": 94.5},
    },
}


def price_of_node(kind: str) -> float:
    """Of a node of Helix's clusters, an hour: ``L4``, or ``T4x4`` for four of them."""
    name, _, count = kind.partition("x")
    return PRICES[name] * int(count or 1)
