"""Each block of code of a page is run by some test, or it is said here why not."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from tests.page_blocks import (
    PAGES_TYPED,
    CodeBlock,
    code_blocks,
    reason_not_typed,
    shell_commands,
    typed_pages,
)
from tests.test_docs import PAGES, ROOT, blocks
from tvm_hetero import PartitionOptions
from tvm_hetero.cluster.description import read_description
from tvm_hetero.decoders.folder import read_facts
from tvm_hetero.plan.kernel_takes import takes_from
from tvm_hetero.planning.requests import load_trace
from tvm_hetero.platform import Platform
from tvm_hetero.problem.implementation_choice import choices_from_dict
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.relax import frontend
from tvm_hetero.serve.scheduling.scheduler import Scheduler
from tvm_hetero.sizes.folder import read_size_facts
from tvm_hetero.util.documents import parse_document, read_document

DOCS, HERE = "tests/test_docs.py", "tests/test_page_blocks.py"
FUZZED = "tests/examples/test_pages.py"
OWN = "tests/examples/test_page_python.py"
PLANS, TABLE = "tests/compiler/test_make_plan.py", "tests/online/test_table.py"
SHARED = "tests/planning/sharing/test_answer.py"
_PAY_HALF = "test_two_models_of_little_load_share_a_machine_and_pay_half"
SHOWN = "shown, nothing to run: "
# Blocks that are no commands, by page and words that no other such block of it has: who runs or
# reads it, or why nobody can.
OTHER_BLOCKS = {
    "docs/accordion.md": {
        "scheduler.arrive": f"{HERE}::test_the_scheduler_is_called_as_the_page_says"
    },
    "docs/architecture.md": {
        "─ import ─►": f"{SHOWN}a drawing",
        "│  __init__": f"{DOCS}::test_the_architecture_shows_the_floors",
    },
    "docs/boards.md": {"rpi4": f"{DOCS}::test_the_boards_example_is_read"},
    "docs/choosing.md": {"answer.front": f"{OWN}::test_choosings_python_answers_a_question"},
    "docs/cluster.md": {"cluster/1": f"{HERE}::test_the_cluster_file_is_read"},
    "docs/control-flow.md": {
        "choose(c, a, b)": f"{SHOWN}an equation",
        "PartitionOptions(": f"{HERE}::test_options_have_probabilities",
    },
    "docs/decoders.md": {
        "from_huggingface(": f"{HERE}::test_what_makes_decoders_has_the_parameters_of_the_page",
        "from_exported(PROGRAM": f"{HERE}::test_what_makes_decoders_has_the_parameters_of_the_page",
        "export_transformers(": f"{FUZZED}::test_the_decoders_python_exports_a_decoder",
    },
    "docs/formats.md": {
        "big-little": f"{DOCS}::test_the_platform_example_is_read",
        "problem/1": f"{DOCS}::test_the_problem_example_is_read",
        "schedule/1": f"{DOCS}::test_the_schedule_example_answers_the_problem_example",
        "schedule.json kernels.json": f"{SHOWN}a listing of a folder",
        "kernels/1": f"{HERE}::test_documents_of_an_artifact_are_read",
        '"metric"': f"{HERE}::test_documents_of_an_artifact_are_read",
        "sizes/  ": f"{SHOWN}a listing of a folder",
        '"sizes": [1, 8]': f"{HERE}::test_documents_of_an_artifact_are_read",
        "step/  ": f"{SHOWN}a listing of a folder",
        '"family"': f"{HERE}::test_documents_of_an_artifact_are_read",
        '"tvm-hetero/plan/2"': f"{PLANS}::test_the_plan_of_the_documentation_is_one",
        '"tvm-hetero/requests/1"': f"{HERE}::test_the_requests_are_read",
        "tvm-hetero/sharing/1": f"{DOCS}::test_the_fields_of_a_shared_day_are_documented",
        "sharing-request/1": f"{DOCS}::test_the_sharing_request_example_is_read",
        "choice-request/1": f"{DOCS}::test_the_choice_request_example_is_read",
        "layer-flow/1": f"{DOCS}::test_the_layer_flow_example_is_read_and_its_layout_judged",
        "layer-layout/1": f"{DOCS}::test_the_layer_flow_example_is_read_and_its_layout_judged",
        "recording/1": f"{TABLE}::test_a_recording_is_read_back_as_it_was_written",
        "network small": f"{DOCS}::test_the_list_of_layers_is_read",
    },
    "docs/forms-of-a-problem.md": {
        "line of atoms": f"{SHOWN}what the command above prints",
        "Problem ─►": f"{SHOWN}a drawing",
    },
    "docs/from-relay.md": {"tvm.ir.save_json": f"{SHOWN}for a TVM that no longer installs"},
    "docs/howto/from-triton.md": {
        "tritonclient": "tests/site/test_howto.py::test_tritons_client_asks_as_the_page_says"
    },
    "docs/kernels.md": {"step 'big/seg0'": f"{SHOWN}an error"},
    "docs/power.md": {
        "most_throughput": f"{OWN}::test_powers_python_plans_under_watts",
        "platform/1": f"{HERE}::test_a_device_of_two_levels_is_read",
    },
    "docs/serving.md": {
        "ready on http": f"{SHOWN}what a server says",
        "HTTP/1.1 503": f"{SHOWN}an answer",
    },
    "docs/sharing.md": {"answer.days": f"{SHARED}::{_PAY_HALF}"},
    "docs/teams.md": {"cpu0       core 0": f"{SHOWN}what a command prints"},
    "docs/usage.md": {
        "import tvm_hetero": f"{FUZZED}::test_the_readmes_and_the_usages_python_in_order",
        "#include": f"{FUZZED}::test_the_cpp_of_usage_compiles",
    },
    "README.md": {
        "import tvm_hetero": f"{FUZZED}::test_the_readmes_and_the_usages_python_in_order"
    },
}  # fmt: skip


def others(page: str) -> list[CodeBlock]:
    """Blocks of a page that are neither commands nor formulas, which the site's generator reads."""
    found = code_blocks(PAGES[page])
    return [each for each in found if each.language != "math" and not is_typed(page, each)]


def is_typed(page: str, block: CodeBlock) -> bool:
    """Whether all of a block is commands."""
    if block.language or page in PAGES_TYPED:
        return not block.language
    return all(reason_not_typed(page, each) != "no command" for each in shell_commands(block.text))


@pytest.mark.parametrize("page", [page for page in PAGES if others(page)])
def test_each_block_is_run_or_it_is_said_why_not(page: str) -> None:
    told = OTHER_BLOCKS.get(page, {})
    for block in others(page):
        by = [words for words in told if words in block.text]
        assert len(by) == 1, f"{page}: {block.head!r} is of {by}"
    assert len(others(page)) == len(told)


def test_who_is_said_to_run_a_block_is_there() -> None:
    for who in {each for told in OTHER_BLOCKS.values() for each in told.values()}:
        if not who.startswith(SHOWN):
            file, _, name = who.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), who


def test_each_command_is_typed_by_a_test_or_it_is_said_why_not() -> None:
    assert [who for who in PAGES_TYPED.values() if not (ROOT / who).is_file()] == []
    assert not set(typed_pages()) & PAGES_TYPED.keys()
    with_commands = {
        page
        for page, text in PAGES.items()
        for block in code_blocks(text)
        if not block.language and is_typed(page, block)
    }
    left_out = with_commands - {*typed_pages(), *PAGES_TYPED}
    assert left_out == {"docs/boards.md", "docs/diviml.md", "benchmarks/README.md"}


def test_blocks_are_found_between_fences_and_indented() -> None:
    page = "a\n\n    b 'c\n    d'\n      e  # f\n\n    g\nh\n```py\n    i\n```\n- j\n    k\n"
    found = code_blocks(page)
    assert found == [CodeBlock("", "b 'c\nd'\n  e  # f\n\ng"), CodeBlock("py", "    i")]
    assert shell_commands(found[0].text) == ["b 'c\nd'\n  e", "g"]


# -------------------------------------------------------------------- what is quick to run or read


def block_with(page: str, words: str) -> str:
    """The one block of a page that has these words."""
    (found,) = [each.text for each in code_blocks(PAGES[page]) if words in each.text]
    return found


def test_the_cluster_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(block_with("docs/cluster.md", "cluster/1"))
    read = read_description(tmp_path / "nodes.yaml")
    assert [(node.name, node.cores) for node in read.nodes] == [("left", (0,)), ("right", (1,))]
    assert read.silence == 5.0


def test_documents_of_an_artifact_are_read(tmp_path: Path) -> None:
    for name, words in {"kernels": "kernels/1", "decoder": '"family"', "sizes": "[1, 8]"}.items():
        (tmp_path / f"{name}.json").write_text(block_with("docs/formats.md", words))
    kernels = read_document(tmp_path / "kernels.json")
    (choice,) = choices_from_dict(kernels)
    assert choice.kernel == "max_pool2d"
    (takes,) = takes_from(kernels, "docs").values()
    assert (len(takes.args), takes.written) == (2, 1)
    assert read_facts(tmp_path).length == 1024
    assert read_size_facts(tmp_path).open.shapes == {"x": ("n", 3, 48, "width")}
    told = parse_document(block_with("docs/formats.md", '"metric"'), "docs")
    promise = PrecisionPromise.from_dict(told)
    assert promise.to_dict() == told and set(promise.tasks) == set(told["tasks"])


def test_the_requests_are_read(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(block_with("docs/formats.md", '"tvm-hetero/requests/1"'))
    assert [each.prompt for each in load_trace(tmp_path / "trace.json")] == [300, 20]


def test_a_device_of_two_levels_is_read() -> None:
    (text,) = blocks(PAGES["docs/power.md"], "yaml")
    platform = Platform.from_dict(parse_document(text, "docs", as_yaml=True))
    assert platform.names == ("big.low", "big.high")


def test_options_have_probabilities() -> None:
    line = block_with("docs/control-flow.md", "PartitionOptions(").splitlines()[-1]
    made = eval(line, {"PartitionOptions": PartitionOptions})  # the page's own text
    assert made.probabilities == {"gate": 0.9}


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("from_huggingface(FOLDER", frontend.from_huggingface),
        ("from_exported(P", frontend.from_exported),
    ],
)
def test_what_makes_decoders_has_the_parameters_of_the_page(words: str, function: object) -> None:
    (call,) = ast.parse(block_with("docs/decoders.md", words)).body
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    parameters = inspect.signature(function).parameters
    given = {each.arg: ast.unparse(each.value) for each in call.value.keywords}
    assert set(given) <= set(parameters)
    if function is frontend.from_huggingface:  # the page says what is taken where nothing is said
        assert given == {name: repr(parameters[name].default) for name in given}


def test_the_scheduler_is_called_as_the_page_says() -> None:
    line = block_with("docs/accordion.md", "scheduler.arrive")
    assert list(inspect.signature(Scheduler.arrive).parameters) == ["self", "query", "now"]
    named = re.split(r"[, ]+", line.split("# and ")[1].strip())
    assert len(named) == 5 and all(hasattr(Scheduler, name) for name in named)
