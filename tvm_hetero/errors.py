"""What can go wrong, named by what the caller can do about it.

Every message says what was given, what was expected and what to do.
The command line prints the message alone and exits with ``exit_status``.
"""

from __future__ import annotations

LIST_LINE = "\n  "
"""What begins each line of a list in a message."""


class HeteroError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_status = 1


class UsageError(HeteroError):
    """An argument is wrong: call again, corrected."""

    exit_status = 2


class FormatError(HeteroError):
    """A document (platform, problem, schedule, plan) is malformed: mend the document."""

    exit_status = 2


class ModelError(HeteroError):
    """A model cannot be read or imported: export it differently."""

    exit_status = 2


class PlatformError(HeteroError):
    """A device or link that is needed is not there: change the platform."""

    exit_status = 2


class InfeasibleError(HeteroError):
    """No placement satisfies the constraints: relax a limit.

    Attributes
    ----------
    proven : whether that holds of every schedule. A method that looks at some of them only says by
        this error that it is stuck; nobody who asks for an answer is told more than that it found
        nothing (`tvm_hetero.solvers.core.verified_call`).
    """

    exit_status = 3

    def __init__(self, text: str, *, proven: bool = False) -> None:
        super().__init__(text)
        self.proven = proven


class SolverError(HeteroError):
    """A solver gave no valid schedule: give it more time, or use another one."""

    exit_status = 3


class ProfileError(HeteroError):
    """A kernel or link could not be measured: see the device, or use another cost model."""

    exit_status = 4


class ArtifactError(HeteroError):
    """A compiled artifact is damaged or of another version: build it again."""

    exit_status = 2


class RunError(HeteroError):
    """A run was refused or failed: correct the inputs, or see the segment that is named."""

    exit_status = 5


class DeadlineError(RunError):
    """A request was not done by its deadline: give it more time, or submit less at once."""


class FullError(RunError):
    """The pipeline is full and was not waited for: take results first, or wait for room."""


class NumericsError(RunError):
    """A kernel wrote a value that is not finite (seen while numerics are checked)."""


class BackendError(SolverError):
    """A backend that was asked for by name cannot take the model: use another one."""


class SolverFault(SolverError):
    """A solver crashed, or its answer is not what it says: report it, and use another one."""


class PassFault(HeteroError):
    """A pass broke what the next one relies on: report it, with the model."""


class SolverWarning(UserWarning):
    """A solver failed and another one's answer was given; the text names both."""


class OutputWarning(UserWarning):
    """Two builds of one model differ by more than rounding: compare both with the model."""


class NodeLost(RunError):
    """A machine of a cluster died or stalled, and its state is gone: recover, and begin again."""
