from __future__ import annotations

import re
import warnings
from importlib import import_module

import pytest

from tests.test_floors import MODULES, ROOT
from tvm_hetero import __version__

# What a call of `deprecated_names` in a module says.
_CALL = re.compile(r"deprecated_names\(\s*__name__, (\{[^}]*\}), gone_in=\"([\d.]+)\"\s*\)")


def deprecated() -> list[tuple[str, str, str, str]]:
    """Module, old name, new name, and the version in which the old one is gone."""
    found = []
    for module, path in MODULES.items():
        for names, version in _CALL.findall(path.read_text(encoding="utf-8")):
            full = f"tvm_hetero.{module}".removesuffix(".__init__")
            if module != "util.deprecation":
                pairs = re.findall(r'"(\w+)": "(\w+)"', names)
                found += [(full, old, new, version) for old, new in pairs]
    return found


@pytest.mark.parametrize(("module", "old", "new", "version"), deprecated())
def test_an_old_name_is_the_new_thing_and_warns_who_uses_it(module, old, new, version):
    home = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now.*{version}") as told:
        found = getattr(home, old)
    assert found is getattr(home, new)
    assert told[0].filename == __file__
    # Whoever reads the warning finds there what else has changed.
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("### Migration\n")[1]
    assert re.search(rf"\b{old}`.*`{new}`", notes.split("\n### ")[0])


def test_an_old_name_does_not_outlive_its_release():
    said = re.match(r"(\d+)(?:\.(\d+))?", __version__)
    assert said is not None
    now = [int(part or 0) for part in said.groups()]
    assert [row for row in deprecated() if [int(p) for p in row[3].split(".")] <= now] == []


def test_other_names_are_as_unknown_as_ever_and_new_ones_are_quiet():
    module, _, new, _ = deprecated()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(import_module(module), new)
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nonsense'"):
            _ = import_module(module).Nonsense
