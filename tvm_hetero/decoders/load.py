"""Load what `tvm-hetero partition` wrote: an artifact, a decoder, a model of open dimensions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm_hetero.artifact.kinds import has_sizes, is_decoder
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.executor import load as load_executor

if TYPE_CHECKING:
    from tvm_hetero.online.live.adapter import AdaptationEvent
    from tvm_hetero.sizes.executor import SizedExecutor


def load(
    path: str | os.PathLike[str],
    variant: str | None = None,
    *,
    adapt: str | None = None,
    alpha: int = 10,
    on_event: Callable[[AdaptationEvent], None] | None = None,
) -> Executor | Decoder | SizedExecutor:
    """Load a folder and start what runs it.

    Parameters
    ----------
    variant : which plan runs; None: the artifact's choice.
    adapt : a policy that changes the plan while it runs (`tvm_hetero.online.live`): ``resolve``,
        ``odin``, ... The model must have been partitioned for throughput.
    alpha, on_event : as for `tvm_hetero.online.live.adaptive_executor.AdaptiveExecutor`.

    Returns
    -------
    Executor, Decoder or SizedExecutor
        Whichever the folder is of; a decoder generates tokens (`Decoder.generate`), and of open
        dimensions each request is run at its own size.

    Raises
    ------
    ArtifactError
        If there is none of them, or it is damaged or of another version.
    UsageError
        If it cannot be adapted.
    """
    if adapt is not None:
        return _load_adaptive(path, variant, adapt, alpha, on_event)
    if has_sizes(path):
        from tvm_hetero.sizes.executor import SizedExecutor

        return SizedExecutor(path, variant)
    return Decoder.load(path, variant) if is_decoder(path) else load_executor(path, variant)


def _load_adaptive(
    path: str | os.PathLike[str],
    variant: str | None,
    policy: str,
    alpha: int,
    on_event: Callable[[AdaptationEvent], None] | None,
) -> Executor:
    from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor

    if variant is not None:
        raise UsageError("a policy chooses the plan; leave out the variant, or 'adapt'")
    if has_sizes(path) or is_decoder(path):
        raise UsageError("decoders and models of open dimensions are not adapted: load it as it is")
    tell = on_event or (lambda _: None)
    return AdaptiveExecutor(load_artifact(path), policy, alpha=alpha, on_event=tell)
