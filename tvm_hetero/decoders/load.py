"""Load what `tvm-hetero partition` wrote: an artifact or a decoder."""

from __future__ import annotations

import os

from tvm_hetero.artifact.kinds import is_decoder
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.executor import load as load_executor


def load(path: str | os.PathLike[str], variant: str | None = None) -> Executor | Decoder:
    """Load a folder and start what runs it.

    Returns
    -------
    Executor or Decoder
        Whichever the folder is of; a decoder generates tokens (`Decoder.generate`).

    Raises
    ------
    ArtifactError
        If there is neither, or it is damaged or of another version.
    """
    return Decoder.load(path, variant) if is_decoder(path) else load_executor(path, variant)
