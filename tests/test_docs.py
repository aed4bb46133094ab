"""What docs/ and README.md show is what the readers read, and what they name is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.planning.sharing.test_answer import asked as shared_day
from tests.planning.sharing.test_answer import model as shared_model
from tests.test_floors import BELOW_TVM, FLOORS, MODULES
from tvm_hetero import errors
from tvm_hetero.check import check_schedule
from tvm_hetero.planning.choosing import parse_choice_request
from tvm_hetero.planning.helix import judge, parse_layer_flow, parse_layer_layout
from tvm_hetero.planning.sharing import parse_sharing_request, share
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.planning.sharing import sharing_dict
from tvm_hetero.serve.core.refusal import REASONS
from tvm_hetero.solvers import Options
from tvm_hetero.util.documents import parse_document
from tvm_hetero.zoo.layer_lists import parse_layer_list

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        *sorted((ROOT / "docs").rglob("*.md")),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        ROOT / "benchmarks" / "README.md",
        *sorted((ROOT / "examples").rglob("*.md")),
    )
}
FORMATS = PAGES["docs/formats.md"]
# The first screens of the project fit in a reader's patience.
README_LINES = 125


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def documented_problem() -> Problem:
    return Problem.from_dict(parse_document(blocks(FORMATS, "json")[0], "docs"))


def test_the_shared_day_example_is_read() -> None:
    (text,) = [each for each in blocks(FORMATS, "yaml") if "sharing-request/1" in each]
    request = parse_sharing_request(parse_document(text, "docs", as_yaml=True))
    assert request.hours == 6 and request.seconds == 20 and request.models[0].rates[0] == 36.0


def test_the_fields_of_a_shared_day_are_documented() -> None:
    (text,) = [each for each in blocks(FORMATS, "json") if "tvm-hetero/sharing/1" in each]
    models = tuple(shared_model(name, (5.0,), 0.4) for name in ("small", "large"))
    answer = share(shared_day(*models), Options(0.1, deadline=60.0), Options(1.0, deadline=60.0))
    assert fields_of(json.loads(text)) == fields_of(sharing_dict(answer))


def fields_of(value: object, path: str = "") -> set[str]:
    """Every field in a document, by its path; names of policies are no fields."""
    if isinstance(value, list):
        return set[str]().union(*(fields_of(each, path) for each in value))
    if not isinstance(value, dict):
        return {path}
    named = path in (".policies", ".refused")
    rows = (fields_of(inner, path if named else f"{path}.{key}") for key, inner in value.items())
    return set[str]().union(*rows) - ({".refused"} if named else set())


def test_the_layer_flow_example_is_read_and_its_layout_judged() -> None:
    (text,) = [each for each in blocks(FORMATS, "yaml") if "layer-flow/1" in each]
    problem = parse_layer_flow(parse_document(text, "docs", as_yaml=True))
    (text,) = [each for each in blocks(FORMATS, "json") if "layer-layout/1" in each]
    layout = parse_layer_layout(parse_document(text, "docs"), problem)
    # What a computes: at most 122 go on to b, whose link is narrow, and 140 to c.
    assert judge(problem, layout).value == 250.0


def test_the_platform_example_is_read() -> None:
    text = blocks(FORMATS, "yaml")[0]
    platform = Platform.from_dict(parse_document(text, "docs", as_yaml=True))
    assert platform.names == ("big", "little")
    assert platform.device("big").memory == 8 * 2**30
    assert platform.device("big").launch == pytest.approx(5e-6)
    assert len(platform.links) == 2 and len(platform.fabrics) == 2


def test_the_choice_request_example_is_read() -> None:
    (text,) = [each for each in blocks(FORMATS, "yaml") if "choice-request/1" in each]
    request = parse_choice_request(parse_document(text, "docs", as_yaml=True))
    assert [each.name for each in request.variants] == ["r50", "r50-half", "r18"]
    assert [each.platform.names for each in request.machines] == [("cpu", "gpu0")] * 2
    assert 3500 < len(request.classes[0].requests) < 4500 and request.budget.watts == 5000


def test_the_sharing_request_example_is_read() -> None:
    (text,) = [each for each in blocks(FORMATS, "yaml") if "sharing-request/1" in each]
    request = parse_sharing_request(parse_document(text, "docs", as_yaml=True))
    assert [model.name for model in request.models] == ["photos", "tags", "nightly"]
    assert request.hours == 6 and request.machines[0].start == 120


def test_the_list_of_layers_is_read() -> None:
    (text,) = [each for each in blocks(FORMATS, "text") if each.startswith("network")]
    network = parse_layer_list(text, "docs")
    assert [layer.kind for layer in network.layers] == ["conv", "pool", "fc"]


def test_the_boards_example_is_read() -> None:
    (text,) = blocks(PAGES["docs/boards.md"], "yaml")
    platform = Platform.from_dict(parse_document(text, "docs", as_yaml=True))
    boards = [device.rpc for device in platform.devices if device.rpc is not None]
    assert [board.timeout for board in boards] == [10.0, 30.0]
    assert boards[1].tracker == "10.0.0.1:9190"


def test_the_problem_example_is_read() -> None:
    problem = documented_problem()
    assert problem.devices_for("sort1") == ("little",)
    assert problem.seconds("conv1", "little", 4) == 0.015


def test_the_schedule_example_answers_the_problem_example() -> None:
    problem = documented_problem()
    schedule = Schedule.loads(blocks(FORMATS, "json")[1])
    assert check_schedule(problem, schedule) == []
    assert schedule.problem == problem.digest
    assert schedule.copies and schedule.status == "optimal"


def commands() -> list[list[str]]:
    """The words of every ``tvm-hetero`` line in the pages' indented blocks, comments cut off."""
    lines = {
        line.split("#")[0].strip(): None
        for text in PAGES.values()
        for line in re.findall(r"^    tvm-hetero ([a-z].+)$", text, re.M)
    }
    return [line.split() for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_pages_commands_have_their_options(words: list[str]) -> None:
    described = tvm_hetero(words[0], "--help")
    assert described.status == 0
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(^|[\s,]){option}[\s,]", described.out), option


def test_every_verb_is_told_of() -> None:
    told = {words[0] for words in commands()}
    files = (ROOT / "tvm_hetero" / "cli" / "verbs").glob("[a-z]*.py")
    assert sorted({path.stem.replace("_", "-") for path in files} - told) == []


def test_the_readme_fits_in_a_readers_patience() -> None:
    assert len(PAGES["README.md"].splitlines()) <= README_LINES


@pytest.mark.parametrize("page", ["README.md", "docs/usage.md"])
def test_a_pages_python_names_what_there_is(page: str) -> None:
    (text,) = blocks(PAGES[page], "python")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    spaces = {
        name: importlib.import_module(f"tvm_hetero{dot}")
        for name, dot in (("th", ""), ("relay", ".relay"), ("relax", ".relax"))
    }
    found = 0
    for call in calls:
        first, *rest = ast.unparse(call.func).split("(")[0].split(".")
        if first not in spaces:
            continue
        value = spaces[first]
        for attribute in rest:
            value = getattr(value, attribute)
        parameters = inspect.signature(value).parameters
        if "(" not in ast.unparse(call.func):
            assert all(keyword.arg in parameters for keyword in call.keywords)
        found += 1
    assert found >= 5


# ------------------------------------------------------------------- names of files and modules


def paths(text: str) -> set[str]:
    """Names of files and folders: what has a slash or one of our extensions."""
    known = {path.name for path in (*ROOT.iterdir(), *(ROOT / "tvm_hetero").iterdir())}
    known -= {"build", "demo"}  # what is made, not kept
    words = re.findall(r"(?<![\w./$-])((?:[\w-]+/)+(?:[\w.-]*\w)?)(?![\w*{}])", text)
    files = re.findall(r"(?<![\w./-])([a-z_]\w*\.(?:py|cc|h))\b", text)
    ours = {w for w in words if w.split("/")[0] in known or w.endswith((".py", ".cc", ".h"))}
    return ours | set(files)


def is_there(name: str, page: str = "README.md") -> bool:
    """Whether a name is a path below the root, the package, docs or its page's folder, or the name
    of some file."""
    bases = (ROOT, ROOT / "tvm_hetero", ROOT / "docs", ROOT / "include", (ROOT / page).parent)
    if any((base / name).exists() for base in bases):
        return True
    return "/" not in name and name in names_of_files()


@cache
def names_of_files() -> frozenset[str]:
    """The names of all source files."""
    folders = ("tvm_hetero", "passes", "cost_models", "src", "include", "tests", "benchmarks",
               "examples", "tutorials")  # fmt: skip
    return frozenset(name for folder in folders for _, _, names in os.walk(ROOT / folder)
                     for name in names if not name.endswith(".pyc"))  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    assert [name for name in sorted(paths(PAGES[page])) if not is_there(name, page)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    prose = re.sub(r"`[^`\n]*`", "", PAGES[page])
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
    folder = (ROOT / page).parent
    assert [link for link in links if not (folder / link).exists()] == []


def named_tests() -> list[tuple[str, str]]:
    """File and function of every test that a page names as what shows something."""
    found = (re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text) for text in PAGES.values())
    return sorted({each for page in found for each in page})


@pytest.mark.parametrize(("file", "name"), named_tests(), ids=lambda each: each.split("/")[-1])
def test_every_test_that_a_page_names_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_catalogue_of_errors_has_every_reason_of_a_refusal() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [45]\d\d \|", PAGES["docs/errors.md"], re.M)
    assert set(rows) == set(REASONS)


def test_every_page_is_in_the_index() -> None:
    pages = [name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")]
    assert "method/precedence.md" in pages
    lost = [page for page in pages if f"]({page})" not in PAGES["docs/README.md"]]
    assert lost == ["README.md"]


def test_every_derivation_that_a_file_names_is_a_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in MODULES.values()]
    named = {name for text in texts for name in re.findall(r"docs/method/[\w-]+\.md", text)}
    assert named == {page for page in PAGES if page.startswith("docs/method/")}


# ----------------------------------------------------------------- the house, and what goes wrong


def floors_picture() -> str:
    """A line a floor, the top one first: rooms that need no TVM, and those that do."""
    lines = []
    for floor in sorted(set(FLOORS.values()), reverse=True):
        rooms = [name for name, its in FLOORS.items() if its == floor]
        below = "  ".join(name for name in rooms if name in BELOW_TVM)
        above = "  ".join(name for name in rooms if name not in BELOW_TVM)
        lines.append(f"{floor:>3}  {below:<28}│  {above}".rstrip())
    return "\n".join(lines) + "\n"


def test_the_architecture_shows_the_floors() -> None:
    assert floors_picture() in PAGES["docs/architecture.md"], "\n" + floors_picture()


def test_the_architecture_tells_of_every_room() -> None:
    text = PAGES["docs/architecture.md"]
    rooms = {name.split(".")[0] for name in FLOORS} - {"__init__", "__main__"}
    assert [name for name in sorted(rooms) if not re.search(rf"`{name}(/|\.py)`", text)] == []


def walked() -> list[tuple[str, str]]:
    """Function (or class, or class and method) and the files of each step of a partition's life."""
    text = PAGES["docs/architecture.md"].split("## Life of a partition")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[2:4]] for line in re.findall(r"^\|.+", text, re.M)
    ]
    return [(name, files) for names, files in rows[2:] for name in re.findall(r"`([\w.]+)`", names)]


def defines(path: Path, name: str) -> bool:
    """Whether a file, or one of a folder's, defines a function, class or C++ method."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    needle = re.compile(rf"(?:def|class) {name}\b|::{name}\(")
    return any(needle.search(file.read_text(encoding="utf-8")) for file in files)


@pytest.mark.parametrize(("name", "files"), walked())
def test_each_step_of_a_partitions_life_is_where_the_page_says(name: str, files: str) -> None:
    places = [ROOT / file for file in files.split(", ")]
    for part in name.split("."):
        assert any(defines(place, part) for place in places), f"{part} in {files}"


def raised() -> list[type[Exception]]:
    """The classes of `tvm_hetero.errors`."""
    return [value for value in vars(errors).values()
            if isinstance(value, type) and issubclass(value, Exception)]  # fmt: skip


@pytest.mark.parametrize("error", raised(), ids=lambda error: error.__name__)
def test_the_catalogue_of_errors_has_every_class(error: type[Exception]) -> None:
    status = getattr(error, "exit_status", "")
    row = rf"^\| `{error.__name__}` \| `{error.__base__.__name__}` \| .+ \| .+ \| {status} ?\|$"
    assert re.search(row, PAGES["docs/errors.md"], re.M)
