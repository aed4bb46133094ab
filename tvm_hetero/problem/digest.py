"""A problem's digest without its document: what a schedule names its problem by.

The digest is that of the document's canonical JSON (`util.documents.canonical_json`). On hundreds
of devices nearly all of that text is costs, tasks times devices of them, and few differ: here the
text of each cost and of each device's name is made once, and rows are put together from them.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence

from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.format import ProblemFields, cost_value, document_around, task_row
from tvm_hetero.util.documents import canonical_json

# A task's row in which costs are still to be filled in. Within a name quotes are escaped, and a
# device of this name has no null beside it.
_GAP = '"cost":null'


def problem_digest(parts: ProblemFields) -> str:
    """SHA-256 (hex) of the canonical JSON of `format.problem_document`."""
    return hashlib.sha256(canonical_text(parts).encode("utf-8")).hexdigest()


def canonical_text(parts: ProblemFields) -> str:
    """The canonical JSON of `format.problem_document`."""
    costs = _CostTexts(parts.platform.names)
    rows = (
        canonical_json(task_row(task, row, None)).replace(_GAP, f'"cost":{costs.of(row)}', 1)
        for task, row in ((task, parts.costs[task.id]) for task in parts.graph.tasks)
    )
    # Keys are sorted, and that of the tasks is the last.
    return canonical_json(document_around([], parts)).removesuffix("]}") + ",".join(rows) + "]}"


class _CostTexts:
    """Rows of costs as text; `names` are those of the devices."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted(names)
        self._keys = {name: f"{canonical_json(name)}:" for name in names}
        # By object, which may be the cost, or the row, of many; held so that no other takes its
        # number.
        self._texts: dict[int, str] = {}
        self._rows: dict[int, str] = {}
        self._held: list[object] = []

    def of(self, row: Mapping[str, Cost]) -> str:
        """``{device: cost, ...}``, sorted by device."""
        if id(row) not in self._rows:
            self._rows[id(row)] = self._made(row)
            self._held.append(row)
        return self._rows[id(row)]

    def _made(self, row: Mapping[str, Cost]) -> str:
        names = self._names if len(row) == len(self._names) else sorted(row)
        costs = [row[name] for name in names]
        for cost in {id(cost): cost for cost in costs}.values():
            if id(cost) not in self._texts:
                self._texts[id(cost)] = canonical_json(cost_value(cost))
                self._held.append(cost)
        texts = map(self._texts.__getitem__, map(id, costs))
        fields = map(operator.add, map(self._keys.__getitem__, names), texts)
        return f"{{{','.join(fields)}}}"
