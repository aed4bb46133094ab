"""What a thread of this process takes of the cores: no interference, though it delays stages.

A server's own thread, which speaks with clients, runs on the cores on which stages run. In a window
it had u seconds of CPU time; all stages together wanted a core without having it for D seconds:

    min(u, D) of D are its doing, of each stage in proportion to its delay

which is taken off both the stage's time and its delay. What is left is somebody else's. It may be
too much that is taken off, as the thread may have run where nobody wanted a core; never too little,
so that a server does not find itself to disturb.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tvm_hetero.online.observation import Observation, StageTime

OwnSeconds = Callable[[], float]
_NANO = 1e-9


def thread_seconds(number: int) -> float:
    """CPU seconds that a thread of this process has had; 0 where the kernel does not tell.

    Parameters
    ----------
    number : of the thread, by `threading.get_native_id`.
    """
    try:
        text = Path(f"/proc/self/task/{number}/schedstat").read_text()
        return int(text.split()[0]) * _NANO
    except (OSError, ValueError, IndexError):  # it has ended, or the kernel keeps no such account
        return 0.0


def without_own(seen: Observation, own: float) -> Observation:
    """What was seen, without what a thread of ours may have done.

    Parameters
    ----------
    own : CPU seconds that the thread had in the window.
    """
    delays = [stage.delay_seconds or 0.0 for stage in seen.stages]
    total = sum(delays) * seen.requests
    if own <= 0 or total <= 0:
        return seen
    share = min(1.0, own / total)
    stages = (_less(stage, share * delay) for stage, delay in zip(seen.stages, delays, strict=True))
    return replace(seen, stages=tuple(stages))


def _less(stage: StageTime, seconds: float) -> StageTime:
    if not seconds:
        return stage
    least = stage.cpu_seconds or 1e-9  # for so long it was at work in any case
    return replace(
        stage,
        seconds=max(stage.seconds - seconds, min(least, stage.seconds)),
        delay_seconds=(stage.delay_seconds or 0.0) - seconds,
    )
