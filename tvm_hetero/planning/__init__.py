"""Planning for machines that are not here: decoders on clusters, and services that run them.

>>> from tvm_hetero import planning, zoo
>>> plan = planning.plan_decoder(planning.DecoderRequest("gpt3-175b", zoo.platform("gpt3-6node")))
>>> round(plan.tokens_per_second, 2)
0.61

Nothing here needs TVM. Costs come from a roofline on data-sheet figures (`tvm_hetero.zoo.costs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_hetero.planning.decoder_plan import DecoderPlan, DecoderRequest
from tvm_hetero.planning.decoding import plan_decoder
from tvm_hetero.util.deprecation import deprecated_names

__all__ = ["DecoderPlan", "DecoderRequest", "plan_decoder"]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Wish": "DecoderRequest"}, gone_in="0.2")
