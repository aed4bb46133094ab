"""Load a device's compiled kernels."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tvm_ffi

from tvm_hetero.errors import ArtifactError
from tvm_hetero.util.code_folder import code_folder
from tvm_hetero.util.leftovers import temporary_folder
from tvm_hetero.util.library_errors import explain_load_error


def load_kernels(path: Path) -> Any:
    """Load a compiled library.

    Raises
    ------
    ArtifactError
        If it is missing or damaged.
    """
    try:
        # Under a name of its own: glibc gives back the library that was loaded from a name before,
        # even if another file stands there now (an artifact that was built again). And not through
        # tvm.runtime.load_module, which looks through the link.
        with temporary_folder("tvm_hetero.") as folder:
            name = folder / path.name
            name.symlink_to(path.resolve())
            library = tvm_ffi.load_module(name)
            if not library.imports:
                return library  # by the file's number glibc shares it between devices: one code
            # Host code keeps the functions of its device code in the library's own memory. Were it
            # shared with who loads it too, these would be gone when one of them is closed.
            with temporary_folder("tvm_hetero.", code_folder()) as mine:
                shutil.copyfile(path, mine / path.name)
                return tvm_ffi.load_module(mine / path.name)
    except (RuntimeError, ValueError, OSError) as error:
        raise ArtifactError(explain_load_error(path, error, "build the model again")) from None
