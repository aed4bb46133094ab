"""The whole way of a small model through the command line: partition, run, bench, show."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvm_hetero as th
from tests.cli.invoke import Outcome, tvm_hetero
from tests.frontends.onnx.models import two_branches
from tvm_hetero import relay
from tvm_hetero.platform import Device, Link, Platform

ROOT = Path(__file__).parents[3]
CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A folder with small.onnx and a platform of two unlike devices on at most two cores."""
    folder = tmp_path_factory.mktemp("workplace")
    onnx.save(two_branches(), folder / "small.onnx")
    first = Device("big", target={"kind": "llvm"}, cores=(CORES[0],), overlap=True)
    target = {"kind": "llvm", "mcpu": "x86-64"}
    second = Device("little", target=target, cores=(CORES[-1],), overlap=True)
    # Free links: the two branches of the model are always worth two devices.
    links = (Link("big", "little"), Link("little", "big"))
    Platform((first, second), links).save(folder / "p.yaml")
    return folder


@pytest.fixture(scope="session")
def partitioned(workplace: Path) -> Outcome:
    """What the partition verb said; it wrote net.hetero."""
    return tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", workplace / "p.yaml"),
        *("--time-limit", 5, "-o", workplace / "net.hetero", "--json"),
    )


@pytest.fixture(scope="session")
def artifact(partitioned: Outcome, workplace: Path) -> Path:
    assert partitioned.status == 0
    return workplace / "net.hetero"


def test_a_model_can_be_built_for_a_machine_that_is_not_here(
    workplace: Path, tmp_path: Path
) -> None:
    elsewhere = max(CORES) + 7
    text = (ROOT / "platforms" / "big-little.yaml").read_text()
    (tmp_path / "p.yaml").write_text(text.replace("cores: [1]", f"cores: [{elsewhere}]"))
    outcome = tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", tmp_path / "p.yaml"),
        *("--cost-model", "analytical", "-o", tmp_path / "net.hetero"),
    )
    assert outcome.status == 0, outcome.err
    assert "nothing was compared: it was built for a machine that is not here" in outcome.out
    assert str(elsewhere) in outcome.out
    assert (tmp_path / "net.hetero" / "manifest.json").is_file()
    run = tvm_hetero("run", tmp_path / "net.hetero", "--random")
    assert run.status != 0
    assert str(elsewhere) in run.err


def test_partition_json_names_placement_value_and_bound(partitioned: Outcome) -> None:
    facts = json.loads(partitioned.out)
    assert facts["objective"]["value"] >= facts["lower_bound"] > 0
    assert len(facts["placement"]) == facts["tasks"] > 0
    assert {sum(row.values()) for row in facts["implementations"].values()} == {facts["kernels"]}
    assert {d for devices in facts["placement"].values() for d in devices} == {"big", "little"}
    assert facts["best_single_device"]["value"] > facts["objective"]["value"]
    measured = facts["decision"]["measured"]
    assert set(measured) == {"partition", "single"}
    assert facts["default"] == facts["decision"]["chosen"] == min(measured, key=measured.get)
    assert {"Import model", "Compile", "Save"} <= set(facts["seconds"])
    assert "Import model" in partitioned.err


def test_run_gives_the_models_outputs(artifact: Path, workplace: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(np.float32)
    np.savez(workplace / "x.npz", x=x)
    args = ["--input", workplace / "x.npz", "--output", workplace / "y.npz", "--repeat", 3]
    for variant in ("partition", "single"):
        result = tvm_hetero("run", artifact, *args, "--variant", variant)
        assert result.status == 0
        assert "net/out:0: float32 [1, 16, 12, 12]" in result.out
        assert f"wrote {workplace / 'y.npz'}" in result.out
        got = np.load(workplace / "y.npz")["net/out:0"]
        evaluator = onnx.reference.ReferenceEvaluator(two_branches())
        np.testing.assert_allclose(got, evaluator.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_run_json_and_trace(artifact: Path, workplace: Path) -> None:
    trace = workplace / "t.json"
    result = tvm_hetero("run", artifact, "--random", "--repeat", 4, "--trace", trace, "--json")
    assert result.status == 0
    facts = json.loads(result.out)
    assert facts["latency"]["count"] == 4
    assert 0 < facts["latency"]["min"] <= facts["latency"]["median"] <= facts["latency"]["max"]
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["pid"] for e in events if e["ph"] == "X"} == {1, 2}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"big", "little"} <= names
    rows = facts["where"]["rows"]
    assert {row["device"] for row in rows if row["kind"] == "segment"} <= {"big", "little"}
    assert all(row["measured"] > 0 for row in rows if row["kind"] == "segment")
    assert facts["where"]["bottleneck"].startswith("Bottleneck: ")


def test_run_names_the_first_task_that_is_not_finite(artifact: Path, tmp_path: Path) -> None:
    x = np.zeros((1, 8, 12, 12), np.float32)
    x[0, 0, 5, 5] = np.inf  # one: relu makes 0 of the nan that two may add up to
    np.savez(tmp_path / "x.npz", x=x)
    args = ("run", artifact, "--input", tmp_path / "x.npz", "--repeat", 2)
    assert tvm_hetero(*args).status == 0
    guarded = tvm_hetero(*args, "--check-numerics")
    assert guarded.status != 0
    assert "its input 0 was not finite already" in guarded.err and "not finite" in guarded.err


def test_run_with_a_deadline_that_cannot_be_kept(artifact: Path) -> None:
    late = tvm_hetero("run", artifact, "--random", "--deadline", "1e-9")
    assert late.status != 0 and "deadline" in late.err


def test_bench_compares_with_both_opponents(artifact: Path) -> None:
    result = tvm_hetero("bench", artifact, "--repeat", 3, "--warmup", 1, "--json")
    assert result.status == 0
    facts = json.loads(result.out)
    assert set(facts["measured"]) == {"partition", "single", "onnxruntime"}
    assert facts["difference"]["relative"] < 1e-4
    where = facts["where"]
    assert where["measured"] > 0 and where["bottleneck"].startswith("Bottleneck: ")
    assert set(where["interference"]) <= {"big", "little"}
    assert set(facts["energy"]) in ({"not_measured"}, {"partition", "single"})


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_batch_is_planned_built_and_run(workplace: Path, tmp_path: Path, objective: str) -> None:
    net = tmp_path / "batch.hetero"
    made = tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", workplace / "p.yaml", "--batch", 2),
        *("--objective", objective, "--time-limit", 5, "--no-measure", "-o", net, "--json"),
    )
    assert made.status == 0, made.err
    facts = json.loads(made.out)
    assert (facts["default"], facts["decision"]) == ("partition", None)
    assert "Decide by measuring" not in facts["seconds"]
    x = np.random.default_rng(1).standard_normal((2, 8, 12, 12)).astype(np.float32)
    with th.load(net) as executor:
        (out,) = executor.run(x=x)
    evaluator = onnx.reference.ReferenceEvaluator(two_branches())
    for element in range(2):
        (expected,) = evaluator.run(None, {"x": x[element : element + 1]})
        np.testing.assert_allclose(out.numpy()[element], expected[0], rtol=1e-4, atol=1e-5)


def test_a_plan_for_throughput_is_measured_in_a_pipeline(workplace: Path) -> None:
    net = workplace / "stream.hetero"
    made = tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", workplace / "p.yaml"),
        *("--objective", "throughput", "--time-limit", 5, "--no-measure", "-o", net),
    )  # whether so small a plan wins is a matter of luck
    assert made.status == 0
    result = tvm_hetero("run", net, "--random", "--repeat", 20)
    assert result.status == 0
    assert "Throughput, time per batch in a pipeline" in result.out
    assert "partition: predicted" in result.out
    assert result.out.rstrip().endswith("times the prediction")

    result = tvm_hetero("bench", net, "--against", "single", "--repeat", 20, "--json")
    assert result.status == 0
    throughput = json.loads(result.out)["throughput"]
    assert set(throughput["predicted"]) == set(throughput["measured"]) == {"partition", "single"}
    assert throughput["predicted"]["partition"] < throughput["predicted"]["single"]
    assert all(each["count"] == 5 and each["min"] > 0 for each in throughput["measured"].values())


def test_a_plan_for_latency_is_not(artifact: Path) -> None:
    result = tvm_hetero("run", artifact, "--random", "--repeat", 2, "--json")
    assert "throughput" not in json.loads(result.out)


def test_bench_of_a_model_that_has_gone(artifact: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(artifact, tmp_path / "moved.hetero")
    manifest = json.loads((moved / "manifest.json").read_text())
    manifest["source"]["path"] = "/nowhere/small.onnx"
    (moved / "manifest.json").write_text(json.dumps(manifest))
    result = tvm_hetero("bench", moved, "--against", "onnxruntime")
    assert result.status == 2
    assert "is gone or has changed" in result.err


def test_show_kernels_names_rules_times_and_what_else_was_tried(artifact: Path) -> None:
    result = tvm_hetero("show", artifact, "--kernels")
    assert result.status == 0
    assert "big: " in result.out and "packed" in result.out and "computed by" in result.out
    facts = json.loads(tvm_hetero("show", artifact, "--kernels", "--json").out)
    assert {row["device"] for row in facts} == {"big", "little"}
    for row in facts:
        assert row["times"][row["implementation"]] == row["seconds"] > 0
        assert row["spread"] is not None and row["refused"] == {}
    # Times of kernels alone; what tasks cost in the network was measured there (in place).
    problem = th.Problem.load(artifact / "problem.json")
    costs = {(t.op, d): c for t in problem.tasks for d, c in problem.costs[t.id].items()}
    for row in facts:
        cost = costs[row["kernel"], row["device"]]
        assert cost.seconds(1) > 0 and cost.implementation == row["implementation"]


def test_only_kernels_are_shown_as_json(artifact: Path) -> None:
    result = tvm_hetero("show", artifact, "--json")
    assert result.status == 2 and "--kernels" in result.err


def test_show_has_placement_versions_and_plan(artifact: Path, tmp_path: Path) -> None:
    result = tvm_hetero("show", artifact, "--html", tmp_path / "plan.html")
    assert result.status == 0
    pieces = ("apache-tvm", "partition on", "measured", "Placement", "conv2d", "lower bound")
    for piece in pieces:
        assert piece in result.out
    assert "conv2d" in (tmp_path / "plan.html").read_text(encoding="utf-8")


def test_problem_then_schedule_then_check(workplace: Path) -> None:
    problem, schedule = workplace / "problem.json", workplace / "schedule.json"
    result = tvm_hetero(
        *("problem", workplace / "small.onnx", "--platform", workplace / "p.yaml"),
        *("--objective", "throughput", "--batch", 2, "-o", problem),
    )
    assert result.status == 0
    assert "throughput, batch 2" in result.out
    assert tvm_hetero("schedule", problem, "--solver", "heft", "-o", schedule).status == 0
    assert tvm_hetero("check", problem, schedule).status == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--random", "--input", "x.npz"], "either --random or --input"),
        ([], "either --random or --input"),
        (["--input", "none.npz"], "cannot be read"),
        (["--random", "--variant", "singel"], "did you mean 'single'"),
        (["--random", "--output", "/none/y.npz"], "there is no folder"),
    ],
)
def test_wrong_options_of_run(artifact: Path, args: list[str], words: str) -> None:
    result = tvm_hetero("run", artifact, *args)
    assert result.status == 2
    assert words in result.err


def test_wrong_inputs_of_run(artifact: Path, tmp_path: Path) -> None:
    for wrong in ({"y": np.zeros(1)}, {"x": np.zeros((1, 8, 12, 12))}, {}):
        np.savez(tmp_path / "x.npz", **wrong)
        result = tvm_hetero("run", artifact, "--input", tmp_path / "x.npz")
        assert result.status == 5
        assert "float32" in result.err and len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "empty"), (b"hello", "not an ONNX file"), (None, "Cannot open")]
)
def test_bad_models_leave_nothing_behind(
    workplace: Path, tmp_path: Path, content: bytes | None, words: str
) -> None:
    model = tmp_path / "bad.onnx"
    if content is not None:
        model.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    platform = workplace / "p.yaml"
    result = tvm_hetero("partition", model, "--platform", platform, "-o", tmp_path / "n.hetero")
    assert result.status == 2
    assert words in result.err
    assert sorted(tmp_path.iterdir()) == before


def test_platform_with_an_unknown_key(workplace: Path, tmp_path: Path) -> None:
    text = (workplace / "p.yaml").read_text().replace("overlap:", "overlapp:")
    (tmp_path / "p.yaml").write_text(text)
    args = ["--platform", tmp_path / "p.yaml", "-o", tmp_path / "n.hetero"]
    result = tvm_hetero("partition", workplace / "small.onnx", *args)
    assert result.status == 2
    assert "did you mean 'overlap'" in result.err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--solver", "hefft"], "did you mean 'heft'"),
        (["--batch", "0"], "--batch"),
        (["--objective", "energy"], "has no watts"),
        (["--time-limit", "0"], "seconds above 0"),
        (["--cost-model", "profield"], "did you mean 'profiled'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    workplace: Path, tmp_path: Path, option: list[str], words: str
) -> None:
    platform = ["--platform", workplace / "p.yaml"]
    output = ["-o", tmp_path / "n.hetero"]
    result = tvm_hetero("partition", workplace / "small.onnx", *platform, *output, *option)
    assert result.status == 2
    assert words in result.err
    assert "(schedule for" not in result.out and "Measure ." not in result.out


def test_a_cpu_that_llvm_does_not_know(workplace: Path, tmp_path: Path) -> None:
    text = (workplace / "p.yaml").read_text().replace("mcpu: x86-64", "mcpu: znver44")
    (tmp_path / "p.yaml").write_text(text)
    args = ["--platform", tmp_path / "p.yaml", "-o", tmp_path / "n.hetero"]
    result = tvm_hetero("partition", workplace / "small.onnx", *args)
    assert result.status == 2
    assert "'little': LLVM knows no CPU 'znver44'" in result.err
    assert "did you mean 'znver4'" in result.err


def test_an_artifact_of_a_model_in_memory_has_no_onnx_file(workplace: Path, tmp_path: Path) -> None:
    mod = relay.frontend.from_onnx(onnx.load(workplace / "small.onnx"))
    figures = Device("a", target={"kind": "llvm"}, peak_flops=1e9, bandwidth=1e9)
    place = relay.transform.HeteroPartition(Platform((figures,)), cost_model="analytical")
    th.build(place(mod)).save(tmp_path / "net.hetero")
    result = tvm_hetero("bench", tmp_path / "net.hetero", "--repeat", 1)
    assert result.status == 2
    assert "leave onnxruntime out of --against" in result.err


@pytest.fixture(scope="session")
def quick(workplace: Path) -> Outcome:
    """What ``partition --quick`` said; it wrote quick.hetero."""
    return tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", workplace / "p.yaml"),
        *("--quick", "-o", workplace / "quick.hetero"),
    )


def outputs_of(artifact: Path) -> list[np.ndarray]:
    """What an artifact makes of seeded inputs, beside what ONNX Runtime makes of them."""
    import onnxruntime

    model = onnx.load(artifact.parent / "small.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with th.load(artifact) as executor:
        inputs = executor.random_inputs(0)
        for ours, right in zip(executor.run(inputs), session.run(None, inputs), strict=True):
            np.testing.assert_allclose(ours.numpy(), right, rtol=1e-4, atol=1e-5)
        return [out.numpy() for out in executor.run(inputs)]


def test_a_quick_artifact_is_right_and_says_that_its_costs_are_estimates(
    quick: Outcome, workplace: Path
) -> None:
    assert quick.status == 0, quick.err
    assert "costs are estimates (quick)" in quick.out and "tvm-hetero refine" in quick.out
    assert outputs_of(workplace / "quick.hetero")
    shown = tvm_hetero("show", workplace / "quick.hetero")
    assert "estimates of the cost model 'quick'" in shown.out


def test_a_refined_artifact_is_right_and_says_nothing_of_estimates(
    quick: Outcome, workplace: Path
) -> None:
    refined = workplace / "refined.hetero"
    outcome = tvm_hetero(
        "refine", workplace / "quick.hetero", "-o", refined, "--no-measure", "--json"
    )
    assert outcome.status == 0, outcome.err
    facts = json.loads(outcome.out)
    assert facts["estimated"] is None and "Measure in place" in facts["seconds"]
    for ours, before in zip(
        outputs_of(refined), outputs_of(workplace / "quick.hetero"), strict=True
    ):
        np.testing.assert_allclose(ours, before, rtol=1e-4, atol=1e-5)
    assert "estimates" not in tvm_hetero("show", refined).out
    again = tvm_hetero("refine", refined)
    assert again.status != 0 and "nothing to refine" in again.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--cost-model", "analytical"), "--cost-model analytical is another one"),
        (("--cluster", "auto"), "--cluster on its nodes"),
        (("--time-limit", "0"), "expected seconds above 0, got 0"),
    ],
)
def test_quick_with_what_contradicts_it_is_refused(
    workplace: Path, tmp_path: Path, more: tuple[str, ...], told: str
) -> None:
    outcome = tvm_hetero(
        "partition", workplace / "small.onnx", "--quick", *more, "-o", tmp_path / "x.hetero"
    )
    assert outcome.status != 0 and told in outcome.err
    assert not (tmp_path / "x.hetero").exists()
