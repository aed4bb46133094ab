from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero.cli.shared.options import check_writable, parse_objective, parse_shapes
from tvm_hetero.errors import UsageError


def test_shapes() -> None:
    texts = ["data_0=1x3x224x224", "gpu_0/x:0=5", "a=b=2,3"]
    assert parse_shapes(texts) == {"data_0": (1, 3, 224, 224), "gpu_0/x:0": (5,), "a=b": (2, 3)}
    assert parse_shapes(None) == {}


@pytest.mark.parametrize("text", ["data", "data=", "=1x2", "data=1x-2", "data=1x", "data=axb"])
def test_bad_shapes_are_quoted(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=1x3x224x224") as info:
        parse_shapes([text])
    assert repr(text) in str(info.value)


def test_a_shape_given_twice() -> None:
    with pytest.raises(UsageError, match="'x' is given twice"):
        parse_shapes(["x=1", "x=2"])


def test_objective() -> None:
    assert parse_objective("throughput", 4).batch == 4
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        parse_objective("latncy", 1)


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    check_writable(tmp_path / "x.json")
    check_writable(None)
    check_writable(tmp_path, folder=True)
    with pytest.raises(UsageError, match="is a folder; give the name of a file"):
        check_writable(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        check_writable(tmp_path / "none" / "x.json")
    with pytest.raises(UsageError, match=r"-o /proc/x\.json: /proc takes no files"):
        check_writable(Path("/proc/x.json"))
    assert not list(tmp_path.iterdir())
