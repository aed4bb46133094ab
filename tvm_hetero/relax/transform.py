"""Passes on Relax modules."""

from __future__ import annotations

from tvm_hetero.passes.lower_to_tasks import LowerToTasks as LowerToTasks
from tvm_hetero.pipeline.annotate_pass import AnnotateDevices as AnnotateDevices
from tvm_hetero.pipeline.hetero_partition import HeteroPartition as HeteroPartition
