"""tvm_hetero: one neural network on heterogeneous devices at once, with a proof of quality.

The scheduling half (`Platform`, `Problem`, `Schedule`, `solve`, `check`) works without TVM;
names that need TVM are loaded when they are first used, so that importing this package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from tvm_hetero._version import version as _installed  # written by setup.py
except ImportError:  # sources that no one has installed
    _installed = "0+unknown"
__version__: str = _installed

# Public name -> module that holds it. Looked up on first use (PEP 562): importing TVM takes a
# second, and a researcher with a problem.json needs none of it.
_HOME = {
    "HeteroError": "tvm_hetero.errors",
    "Platform": "tvm_hetero.platform",
    "Device": "tvm_hetero.platform",
    "Link": "tvm_hetero.platform",
    "TaskGraph": "tvm_hetero.problem.graph",
    "Task": "tvm_hetero.problem.graph",
    "Edge": "tvm_hetero.problem.graph",
    "Problem": "tvm_hetero.problem",
    "Objective": "tvm_hetero.problem",
    "Schedule": "tvm_hetero.problem.schedule",
    "solve": "tvm_hetero.solvers",
    "check": "tvm_hetero.check",
    "build": "tvm_hetero.compiler.build",
    "build_here": "tvm_hetero.pipeline.build_here",
    "PartitionOptions": "tvm_hetero.pipeline.options",
    "decide": "tvm_hetero.executor.choose_variant",
    "load": "tvm_hetero.decoders.load",
    "Executable": "tvm_hetero.artifact.executable",
    "Executor": "tvm_hetero.executor.executor",
    "Decoder": "tvm_hetero.decoders.decoder",
    "DecoderOptions": "tvm_hetero.decoders.build",
    "build_decoder": "tvm_hetero.decoders.build",
    "OpenModel": "tvm_hetero.sizes.build",
    "SizedExecutor": "tvm_hetero.sizes.executor",
    "partition_sizes": "tvm_hetero.sizes.build",
    "Sampling": "tvm_hetero.generation.sampling",
    "relay": "tvm_hetero.relay",
    "relax": "tvm_hetero.relax",
}
_MODULES = {"check", "relay", "relax"}

if TYPE_CHECKING:  # the same names again, for who checks types and for editors
    from tvm_hetero import check as check
    from tvm_hetero import relax as relax
    from tvm_hetero import relay as relay
    from tvm_hetero.artifact.executable import Executable as Executable
    from tvm_hetero.compiler.build import build as build
    from tvm_hetero.decoders.build import DecoderOptions as DecoderOptions
    from tvm_hetero.decoders.build import build_decoder as build_decoder
    from tvm_hetero.decoders.decoder import Decoder as Decoder
    from tvm_hetero.decoders.load import load as load
    from tvm_hetero.errors import HeteroError as HeteroError
    from tvm_hetero.executor.choose_variant import decide as decide
    from tvm_hetero.executor.executor import Executor as Executor
    from tvm_hetero.generation.sampling import Sampling as Sampling
    from tvm_hetero.pipeline.build_here import build_here as build_here
    from tvm_hetero.pipeline.options import PartitionOptions as PartitionOptions
    from tvm_hetero.platform import Device as Device
    from tvm_hetero.platform import Link as Link
    from tvm_hetero.platform import Platform as Platform
    from tvm_hetero.problem import Objective as Objective
    from tvm_hetero.problem import Problem as Problem
    from tvm_hetero.problem.graph import Edge as Edge
    from tvm_hetero.problem.graph import Task as Task
    from tvm_hetero.problem.graph import TaskGraph as TaskGraph
    from tvm_hetero.problem.schedule import Schedule as Schedule
    from tvm_hetero.sizes.build import OpenModel as OpenModel
    from tvm_hetero.sizes.build import partition_sizes as partition_sizes
    from tvm_hetero.sizes.executor import SizedExecutor as SizedExecutor
    from tvm_hetero.solvers import solve as solve


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tvm_hetero' has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
