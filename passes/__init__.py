"""Passes on Relax modules, one a file.

An exception that leaves a Python pass goes through TVM's C++ code, which gives it back as a plain
``RuntimeError`` unless its class is known there: all of ours are made known here.
"""

from __future__ import annotations

import tvm_ffi

from tvm_hetero import errors

for _name, _class in sorted(vars(errors).items()):
    if isinstance(_class, type) and issubclass(_class, errors.HeteroError):
        tvm_ffi.register_error(_name, _class)
