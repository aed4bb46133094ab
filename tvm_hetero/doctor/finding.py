"""One line of what the doctor says: what was found, and what to change about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes
    ----------
    about : the thing, in a word or two (``huge pages``); each finding's is another.
    found : what it is like, a phrase.
    advice : what to change, a sentence; empty where all is well.
    is_fault : whether something does not work at all until that is changed.
    """

    about: str
    found: str
    advice: str = ""
    is_fault: bool = False


def finding_rows(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """What ``tvm-hetero doctor --json`` prints."""
    return {
        "findings": [asdict(finding) for finding in findings],
        "faults": sum(finding.is_fault for finding in findings),
    }
