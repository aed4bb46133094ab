"""Runs a module as a child's main program: ``python -m tvm_hetero.processes.child_main MODULE``.

PyTorch is hidden before the module is looked for. Importing ``a.b.c`` runs ``a`` and ``a.b`` first,
and where one of these loads TVM's foreign function interface, ``a.b.c`` comes too late to hide it:
until a child that measures was ready took 3.2 s of CPU time, and takes 1.1 s.

Two more things cost a third of the rest. Python looks for cycles of garbage among half a million
new objects, none of which is garbage. And TVM's part for sessions of many machines (disco), which
it can do without, and its back ends for accelerators (`Worker` says whether they are wanted) find
names missing: the first error in TVM reads the symbols of every library of the process.
"""

from __future__ import annotations

import gc
import runpy
import sys

from tvm_hetero.processes.torch_import import hide_torch

# New objects after which Python looks for cycles among them (its own number is 700).
_OBJECTS = 100_000

if __name__ == "__main__":
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    hide_torch()
    sys.modules.setdefault("tvm.runtime.disco", None)  # type: ignore[arg-type]
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
