"""Objects that stand many times in a text: read as ever, and each parsed once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.solvers.examples import problem_of, processors
from tvm_hetero.errors import FormatError
from tvm_hetero.problem import Problem
from tvm_hetero.util.repeated_objects import fold_repeats
from tvm_hetero.util.strict_json import parse_json

MANY = 60
# Longer than what is worth being looked for, with what may be mistaken for a key of its own.
ROW = {f"device {i}": {"1": i / 7, "8": i * 1.5} for i in range(200)}
ODD = {**ROW, 'a "cost": {': '"cost": {', '\\"cost': {"cost": {"deep": [1, {"cost": {}}]}}}
OTHER = {**ROW, "device 199": {"1": 0.5, "8": True}}


def document(**more: Any) -> dict[str, Any]:
    """Tasks whose costs are one of three rows, or short."""
    rows = [ROW, ODD, OTHER, {"device 0": 1.0}]
    tasks = [{"id": f"t{i}", "cost": rows[i % 4], '"cost"': ["cost", i]} for i in range(MANY)]
    return {"tasks": tasks, "cost": OTHER, **more}


def parsed(text: str) -> Any:
    """The value, or the error."""
    try:
        return parse_json(text)
    except (FormatError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def plainly(text: str) -> Any:
    """The same of a text of which nothing is taken out, as it holds a NaN in a name."""
    assert "NaN" not in text
    found = parsed(f'{{"NaN": 0, "x": {text}}}')
    return found["x"] if isinstance(found, dict) else found


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" ,\n", "  :\n ")])
def test_what_stands_often_is_read_as_ever(separators: tuple[str, str]) -> None:
    text = json.dumps(document(), separators=separators)
    calls = []

    def parse(text: str, at: int) -> tuple[Any, int]:
        calls.append(at)
        return json.JSONDecoder().raw_decode(text, at)

    folded = fold_repeats(text, parse)
    assert folded is not None and len(folded.text) < len(text) / 10
    assert len(folded.objects) == 3 * MANY // 4 + 1
    assert len(calls) == 3 + MANY // 4  # each of the long ones once, and all short ones
    found = parse_json(text)
    assert found == json.loads(text) == document()
    assert found["tasks"][2]["cost"]["device 199"]["8"] is True  # equal to 1, and is none
    assert found["tasks"][0]["cost"] is found["tasks"][4]["cost"]


@pytest.mark.parametrize(
    ("what", "instead", "says"),
    [
        ('"cost": {"device 0"', '"cost": {"device 0": 1, "device 0"', "given twice"),
        ('"id": "t40"', '"id": "t40", "id": "t41"', "given twice"),
        ('"id": "t40"', '"id": -Infinity', "finite"),
        ('"id": "t40"', '"id": 1e999', "finite"),
        ('"device 7": {"1": 1.0', '"device 7": {"1": 1e999', "finite"),
        ('"id": "t40"', '"id": "t40"cost": {}, "b": 1', "Expecting"),
        ('"id": "t40"', '"id" "t40"', "Expecting"),
        ('"device 7": {"1": 1.0', '"device 7": {"1" 1.0', "Expecting"),
        ('"id": "t40"', '"id": "\\ud800"', "surrogate"),
        ('"device 7": {', '"device \\ud800": {', "surrogate"),
        ('"id": "t40"', f'"id": {"[" * 70}{"]" * 70}', "deep"),
        ('"device 7": {"1": 1.0', f'"device 7": {{"1": {"[" * 61}{"]" * 61}', "deep"),
    ],
)
def test_errors_are_those_of_the_whole_text(what: str, instead: str, says: str) -> None:
    text = json.dumps(document())
    broken = text.replace(what, instead)
    assert broken != text
    found = parsed(broken)
    assert says in found
    if "Expecting" in says:  # with its place
        with pytest.raises(ValueError, match="Expecting") as error:
            json.loads(broken)
        assert found.endswith(str(error.value))
    else:
        assert found == plainly(broken)


def test_nothing_is_taken_out_where_nothing_stands_again() -> None:
    rows = [{**ROW, "device 0": i} for i in range(MANY)]
    text = json.dumps([{"cost": row} for row in rows])
    assert fold_repeats(text, json.JSONDecoder().raw_decode) is None
    assert parse_json(text) == json.loads(text)
    assert "finite" in parsed(json.dumps(document(name=float("nan"))))


def test_what_is_said_of_one_task_is_not_said_of_others_of_equal_costs() -> None:
    devices = 200
    row = {f"p{i}": float(i) for i in range(1, devices + 1)}
    problem = problem_of({f"t{i}": row for i in range(MANY)}, [], processors(devices))
    data = problem.to_dict()
    data["tasks"][3]["implementation"] = {"p2": "tuned"}
    data["tasks"][4]["sizes"] = {"p2": [1, 2]}
    text = json.dumps(data)
    assert fold_repeats(text, json.JSONDecoder().raw_decode) is not None
    found = Problem.from_dict(parse_json(text))
    assert found == Problem.from_dict(json.loads(text))
    assert found.digest == Problem.from_dict(json.loads(text)).digest
    told = {t: row["p2"] for t, row in found.costs.items() if row["p2"] != found.costs["t0"]["p2"]}
    assert {t: (c.implementation, c.sizes) for t, c in told.items()} == {
        "t3": ("tuned", (1,)), "t4": ("rule", (1, 2)),
    }  # fmt: skip
