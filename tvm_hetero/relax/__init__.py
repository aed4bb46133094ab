"""The public namespace, under the present name of TVM's graph IR: ``frontend``, ``transform``."""

from __future__ import annotations

from tvm_hetero.relax import frontend as frontend
from tvm_hetero.relax import transform as transform
