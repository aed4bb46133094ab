"""The namespace that the project's name for its pass comes from: ``relay.transform``.

Relay left TVM with 0.20. Its successor is Relax, on which everything here works: this is
`tvm_hetero.relax` under the older name.
"""

from __future__ import annotations

from tvm_hetero.relax import frontend as frontend
from tvm_hetero.relax import transform as transform
