"""The Relay front end: programs that TVM up to 0.19 saved, read without that TVM.

`from_json` takes what ``tvm.ir.save_json(mod)`` wrote, `from_text` what ``mod.astext()`` gave;
both give a Relax module. `load_params` reads ``.params`` files.
"""

from __future__ import annotations

from tvm_hetero.frontends.relay.core.arrays import load_params
from tvm_hetero.frontends.relay.core.limits import RelayLimits
from tvm_hetero.frontends.relay.importer import from_json, from_text

__all__ = ["RelayLimits", "from_json", "from_text", "load_params"]
