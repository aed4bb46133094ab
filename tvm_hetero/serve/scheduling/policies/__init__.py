"""Policies by name: Accordion, the paper's baselines, and what servers do today."""

from __future__ import annotations

from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.bbs import BufferBased
from tvm_hetero.serve.scheduling.policies.fastest import Fastest
from tvm_hetero.serve.scheduling.policies.fixed_partitions import FixedPartitions
from tvm_hetero.serve.scheduling.policies.one_stage import OneStage
from tvm_hetero.serve.scheduling.policies.packrat import Packrat
from tvm_hetero.serve.scheduling.policies.slo_conforming import SloConforming
from tvm_hetero.serve.scheduling.policies.whole_machine import WholeMachine
from tvm_hetero.serve.scheduling.scheduler import Scheduler

SHARE_POLICIES: dict[str, type[Scheduler]] = {
    "accordion": Accordion,
    "slo-conforming": SloConforming,
    "fastest": Fastest,
    "bbs": BufferBased,
    "one-stage": OneStage,
    "whole-machine": WholeMachine,
    "fixed-partitions": FixedPartitions,
    "packrat": Packrat,
}
