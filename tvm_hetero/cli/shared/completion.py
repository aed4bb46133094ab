"""What a shell offers where a name is typed: those that are known and begin so.

Where none fits nothing is offered, and the shell falls back on files. The names are looked up when
a shell asks, so that no verb loads them for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Completion = Callable[[str], list[str]]


def offer(names: Callable[[], Iterable[str]]) -> Completion:
    """What typer asks for the names that a word may become."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def offer_list(names: Callable[[], Iterable[str]]) -> Completion:
    """The same for names with commas between them: the last one is completed, and none twice."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        left = (name for name in names() if name not in before.split(","))
        return [f"{before}{comma}{name}" for name in left if name.startswith(last)]

    return complete


def objectives() -> Iterable[str]:
    """Of a schedule."""
    from tvm_hetero.problem.objective_kinds import KINDS

    return KINDS


def solvers() -> Iterable[str]:
    """All that are registered."""
    from tvm_hetero.solvers.registry import names

    return names()


def networks() -> Iterable[str]:
    """Those of the zoo."""
    from tvm_hetero.zoo.registry import ENTRIES

    return ENTRIES


def decoders() -> Iterable[str]:
    """Those that can be planned for machines that are not here."""
    from tvm_hetero.zoo.registry import ENTRIES

    return (name for name, entry in ENTRIES.items() if entry.is_decoder)


def platforms() -> Iterable[str]:
    """Those that have a name."""
    from tvm_hetero.zoo.platforms import platform_names

    return platform_names()


def online_policies() -> Iterable[str]:
    """Those that change a stream's plan, and ``none``."""
    from tvm_hetero.online.policies import policy_names

    return (*policy_names(), "none")


def serving_policies() -> Iterable[str]:
    """Those by which models share cores."""
    from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES

    return SHARE_POLICIES
