"""Load what `tvm-hetero partition` wrote: an artifact, a decoder, a model of open dimensions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tvm_hetero.artifact.kinds import has_sizes, is_decoder
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.executor import load as load_executor

if TYPE_CHECKING:
    from tvm_hetero.sizes.executor import SizedExecutor


def load(
    path: str | os.PathLike[str], variant: str | None = None
) -> Executor | Decoder | SizedExecutor:
    """Load a folder and start what runs it.

    Returns
    -------
    Executor, Decoder or SizedExecutor
        Whichever the folder is of; a decoder generates tokens (`Decoder.generate`), and of open
        dimensions each request is run at its own size.

    Raises
    ------
    ArtifactError
        If there is none of them, or it is damaged or of another version.
    """
    if has_sizes(path):
        from tvm_hetero.sizes.executor import SizedExecutor

        return SizedExecutor(path, variant)
    return Decoder.load(path, variant) if is_decoder(path) else load_executor(path, variant)
