from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from tvm_hetero.cli.shared.options import (
    check_writable,
    parse_objective,
    parse_probabilities,
    parse_shapes,
    parse_values,
)
from tvm_hetero.errors import UsageError


def test_shapes() -> None:
    texts = ["data_0=1x3x224x224", "gpu_0/x:0=5", "a=b=2,3"]
    assert parse_shapes(texts) == {"data_0": (1, 3, 224, 224), "gpu_0/x:0": (5,), "a=b": (2, 3)}
    assert parse_shapes(None) == {}


@pytest.mark.parametrize("text", ["data", "=1x2", "data=1x-2", "data=1x", "data=axb"])
def test_bad_shapes_are_quoted(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=1x3x224x224") as info:
        parse_shapes([text])
    assert repr(text) in str(info.value)


def test_a_shape_given_twice() -> None:
    with pytest.raises(UsageError, match="'x' is given twice"):
        parse_shapes(["x=1", "x=2"])


def test_probabilities_are_numbers_behind_the_last_sign() -> None:
    assert parse_probabilities(["a=b=0.25", "gate=1"]) == {"a=b": 0.25, "gate": 1.0}
    assert parse_probabilities(None) == {}
    for text in ("gate", "=0.5", "gate=often"):
        with pytest.raises(UsageError, match=r"expected NAME=0\.9") as info:
            parse_probabilities([text])
        assert repr(text) in str(info.value)
    with pytest.raises(UsageError, match="'gate' is given twice"):
        parse_probabilities(["gate=0.5", "gate=0.6"])


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


def test_an_output_is_refused_where_only_empty_files_can_be_written(tmp_path: Path) -> None:
    """As on a full disk: the answer of hours was lost at the end."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"-o .*x\.json: .* takes no files: File too large"):
            check_writable(tmp_path / "x.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_values_are_read_as_json_or_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a=b.npy", np.array([1, 2], np.int32))
    read = parse_values(
        ["sr=16000", "a=b:0=[1,2.5]", "flag=true", f"shift=@{tmp_path / 'a=b.npy'}"]
    )
    assert read["shift"].dtype == np.int32
    read["shift"] = read["shift"].tolist()
    assert read == {"sr": 16000, "a=b:0": [1, 2.5], "flag": True, "shift": [1, 2]}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["sr"], "expected NAME=VALUE, such as sr=16000"),
        (["sr=fast"], "expected a number, true, false, a list"),
        (['sr={"a":1}'], "expected a number, true, false, a list"),
        (["sr=1", "sr=2"], "'sr' is given twice"),
        (["sr=@no.npy"], "cannot read no.npy: No such file"),
        (["sr=@/dev/null"], "it is no plain file"),
        ([f"sr=@{__file__}"], "no whole .npy file of numbers"),
    ],
)
def test_values_of_another_form_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_values(texts)
