"""What to run a model on: variants, machines, plans, batches and replicas for a load and an SLO.

>>> from tvm_hetero.planning import choosing
>>> answer = choosing.choose(choosing.load_choice_request("request.yaml"))  # doctest: +SKIP
>>> answer.choice.price, answer.choice.bound                                # doctest: +SKIP

The files, in the order in which a question meets them: `request` (notation), `format`, `arrivals`,
`levels`, `replica_plan`, `steady`, `rate`, `options`, `program`, `play_choice`, `find_choice`,
`front`, `neighbours`, `binding`, `answer`.
"""

from __future__ import annotations

from tvm_hetero.planning.choosing.answer import ChoiceAnswer, choose
from tvm_hetero.planning.choosing.format import load_choice_request, parse_choice_request
from tvm_hetero.planning.choosing.request import (
    ChoiceRequest,
    MachineOffer,
    ModelVariant,
    RequestClass,
    SloLimit,
    SpendingLimit,
)

__all__ = [
    "ChoiceAnswer", "ChoiceRequest", "MachineOffer", "ModelVariant", "RequestClass", "SloLimit",
    "SpendingLimit", "choose", "load_choice_request", "parse_choice_request",
]  # fmt: skip
