"""Runs a module as a child's main program: ``python -m tvm_hetero.processes.child_main MODULE``.

PyTorch is hidden before the module is looked for. Importing ``a.b.c`` runs ``a`` and ``a.b`` first,
and where one of these loads TVM's foreign function interface, ``a.b.c`` comes too late to hide it:
until a child that measures was ready took 3.2 s of CPU time, and takes 1.1 s.
"""

from __future__ import annotations

import runpy
import sys

from tvm_hetero.processes.torch_import import hide_torch

if __name__ == "__main__":
    hide_torch()
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
