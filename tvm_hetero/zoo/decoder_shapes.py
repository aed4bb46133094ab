"""Shapes of dense decoders, by their papers.

GPT-2           A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019,
                Table 2; parameters as of the released weights
GPT-3           T. Brown et al., arXiv 2005.14165, Table 2.1 (the width 5140 of the 13B model is
                taken as 5120, which is 40 heads of 128)
Llama 2         H. Touvron et al., arXiv 2307.09288, Table 1; and its configuration files
Llama 3         A. Dubey et al., arXiv 2407.21783, Table 3
Megatron 1T     D. Narayanan et al., SC 2021, doi:10.1145/3458817.3476209, Table 1 (1008B)
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.zoo.work_graph import HALF


@dataclass(frozen=True)
class DecoderShape:
    """The shape of a dense decoder.

    `matrices` of the feed-forward network: 2, or 3 if gated. `tied`: the head's weights are those
    of the embedding (which two devices hold twice, if one has the first and another the last task).
    """

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    matrices: int = 2
    positions: int = 0
    tied: bool = False

    @property
    def head_size(self) -> int:
        """Numbers of a query, key or value of one head."""
        return self.width // self.heads

    def cache_bytes(self, tokens: int = 1) -> int:
        """Bytes of the keys and values of so many tokens of one sequence, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size * HALF * tokens


def _gpt2(layers: int, width: int, heads: int, positions: int = 1024) -> DecoderShape:
    return DecoderShape(layers, width, 4 * width, heads, heads, 50257, 2, positions, tied=True)


def _gpt3(layers: int, width: int, heads: int) -> DecoderShape:
    return _gpt2(layers, width, heads, 2048)


def _llama2(layers: int, width: int, hidden: int, heads: int, kv_heads: int) -> DecoderShape:
    return DecoderShape(layers, width, hidden, heads, kv_heads, 32000, 3)


def _llama3(layers: int, width: int, hidden: int, heads: int) -> DecoderShape:
    return DecoderShape(layers, width, hidden, heads, 8, 128256, 3)


SHAPES = {
    "gpt2-small": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "gpt3-125m": _gpt3(12, 768, 12),
    "gpt3-350m": _gpt3(24, 1024, 16),
    "gpt3-760m": _gpt3(24, 1536, 16),
    "gpt3-1.3b": _gpt3(24, 2048, 16),
    "gpt3-2.7b": _gpt3(32, 2560, 32),
    "gpt3-6.7b": _gpt3(32, 4096, 32),
    "gpt3-13b": _gpt3(40, 5120, 40),
    "gpt3-175b": _gpt3(96, 12288, 96),
    "llama2-7b": _llama2(32, 4096, 11008, 32, 32),
    "llama2-13b": _llama2(40, 5120, 13824, 40, 40),
    "llama2-70b": _llama2(80, 8192, 28672, 64, 8),
    "llama3-8b": _llama3(32, 4096, 14336, 32),
    "llama3-70b": _llama3(80, 8192, 28672, 64),
    "llama3-405b": _llama3(126, 16384, 53248, 128),
    "megatron-1t": DecoderShape(128, 25600, 4 * 25600, 160, 160, 51200, 2, 2048),
}
