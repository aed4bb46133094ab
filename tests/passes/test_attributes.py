"""Names of attributes are defined once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tvm_hetero
from tvm_hetero.passes import attributes

ROOT = Path(tvm_hetero.__file__).parent
NAMES = {name: value for name, value in vars(attributes).items() if name.isupper()}


def test_no_two_attributes_have_one_name() -> None:
    assert len(set(NAMES.values())) == len(NAMES) == 21


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_table_says_of_each_attribute_who_writes_it(name: str) -> None:
    assert re.search(rf"^    {name} +(main|module|kernel) ", attributes.__doc__ or "", re.MULTILINE)


def test_no_other_file_spells_the_name_of_an_attribute() -> None:
    folders = [ROOT, ROOT / "passes", ROOT / "cost_models"]  # rglob follows no links
    files = {path.resolve() for folder in folders for path in folder.resolve().rglob("*.py")}
    assert len(files) > 500
    spelled = {f'"{value}"' for value in NAMES.values()}
    # The package's own file names modules, one of which is called like an attribute.
    others = files - {Path(attributes.__file__).resolve(), (ROOT / "__init__.py").resolve()}
    for path in sorted(others):
        text = path.read_text(encoding="utf-8")
        assert not any(name in text for name in spelled), path
