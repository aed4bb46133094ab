"""One name, one thing: no class of the package is called as another one is.

`grep -rn "class Request"` is the way to a class only if it finds one. Underscores in front do not
tell two classes apart.
"""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_floors import MODULES


def classes() -> dict[str, list[str]]:
    """The modules that define a class of each name, those inside functions too."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(module)
    return found


def test_a_class_name_is_used_once() -> None:
    assert not {name: where for name, where in classes().items() if len(where) > 1}
