"""Requests of any size of a range: right at each, built on use, refused outside."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import tvm_hetero
from tests.sizes.models import expected, platform, write_attention_net, write_conv_net
from tests.waiting import eventually
from tvm_hetero.artifact.manifest import check_files, read_manifest
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.cost_models.analytical import AnalyticalCosts
from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.errors import ArtifactError, DeadlineError, RunError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Cost, Problem
from tvm_hetero.sizes.build import OpenModel, partition_sizes
from tvm_hetero.sizes.executor import SizedExecutor


class ThreeRooflines(AnalyticalCosts):
    """Costs that stand for measured ones: three times the roofline's."""

    name = "profiled-alone"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        found = super().costs(kernels, platform, progress)
        return {
            kernel: {d: Cost(((1, 3 * cost.seconds(1)),)) for d, cost in row.items()}
            for kernel, row in found.items()
        }


OPTIONS = PartitionOptions(cost_model=ThreeRooflines(), solver="heft")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The convolutional network for widths of 16 to 80; 16, 48 and 80 are built."""
    home = tmp_path_factory.mktemp("conv")
    model = OpenModel(write_conv_net(home / "net.onnx"), {"x": (1, 3, 8, range(16, 81, 16))})
    partition_sizes(model, platform(), home / "net.hetero", OPTIONS, measure=False)
    return home


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A folder of one's own, without the file that it was made of."""
    shutil.copytree(built / "net.hetero", tmp_path / "net.hetero")
    return tmp_path / "net.hetero"


@pytest.fixture
def executor(folder: Path) -> Iterator[SizedExecutor]:
    with tvm_hetero.load(folder) as loaded:
        assert isinstance(loaded, SizedExecutor)
        yield loaded


def image(width: int) -> np.ndarray:
    return np.random.default_rng(width).standard_normal((1, 3, 8, width)).astype("float32")


def assert_right(executor: SizedExecutor, built: Path, width: int) -> None:
    x = image(width)
    (found,) = executor.run(x=x)
    np.testing.assert_allclose(
        found.numpy(), expected(built / "net.onnx", {"x": x}), rtol=1e-4, atol=1e-5
    )


def test_each_request_is_right_at_its_own_size(executor: SizedExecutor, built: Path) -> None:
    for width in (48, 16, 80, 48):
        assert_right(executor, built, width)
    assert executor.executor(48).inputs[0].shape == (1, 3, 8, 48)
    assert executor.executor(48) is executor.prepare(48).result()
    pending = executor.submit({"x": image(16)})
    assert pending.result()[0].shape == (1, 16, 10)


def test_sizes_share_their_weights(executor: SizedExecutor, folder: Path) -> None:
    for width in (16, 48, 80):
        executor.executor(width)
    pool = executor._pool
    weights = [load_artifact(folder / "sizes" / str(width)).weights for width in (16, 48, 80)]
    assert pool.bytes + pool.saved == sum(w.nbytes for row in weights for w in row.values())
    assert pool.saved > 0


def test_equal_weights_are_one_file_and_every_hash_is_right(built: Path) -> None:
    sizes = sorted((built / "net.hetero" / "sizes").iterdir())
    assert [size.name for size in sizes] == ["16", "48", "80"]
    hashes, nodes = set(), set()
    for size in sizes:
        manifest = read_manifest(size)
        check_files(size, manifest["files"])
        hashes.add(manifest["files"]["weights.safetensors"])
        nodes.add((size / "weights.safetensors").stat().st_ino)
    assert len(nodes) == len(hashes) < 3


def test_of_many_sizes_those_stay_loaded_that_were_used_last(folder: Path, built: Path) -> None:
    with SizedExecutor(folder, kept=2) as executor:
        first, second = (weakref.ref(executor.executor(width)) for width in (16, 48))
        assert_right(executor, built, 16)
        assert_right(executor, built, 80)
        gc.collect()
        assert first() is not None and second() is None
        assert_right(executor, built, 48)


def test_a_size_is_built_on_use_from_costs_between_those_of_its_neighbours(
    executor: SizedExecutor, built: Path, folder: Path
) -> None:
    assert executor.sizes == [(16,), (48,), (80,)]
    assert_right(executor, built, 64)
    assert executor.sizes == [(16,), (48,), (64,), (80,)]
    place = folder / "sizes" / "64"
    manifest = read_manifest(place)
    check_files(place, manifest["files"])
    assert manifest["estimated"] == "interpolated"
    assert manifest["decision"]["reason"] == "as at size 80, whose plan it has"
    assert manifest["source"]["shapes"] == {"x": [1, 3, 8, 64]}
    assert json.loads((place / "schedule.json").read_text())["solver"] == "size class"
    problem = Problem.load(place / "problem.json")
    costs = {task.id: 3 * max(task.flops / 2e10, task.bytes / 2e10) for task in problem.tasks}
    for task, seconds in costs.items():
        assert problem.costs[task]["big"].seconds(1) >= 0.99 * seconds
    with SizedExecutor(folder, build="never") as again:
        assert_right(again, built, 64)


def test_a_size_outside_of_the_range_is_refused_with_the_range(executor: SizedExecutor) -> None:
    with pytest.raises(RunError, match=r"width is 20, and its sizes are 16..80/16 .* 16 and 32"):
        executor.run(x=image(20))
    with pytest.raises(RunError, match="size 96 is outside of what this folder serves"):
        executor.prepare(96)
    with pytest.raises(RunError, match=r"got shape \[1, 3, 9, 16\]"):
        executor.run(x=np.zeros((1, 3, 9, 16), "float32"))
    with pytest.raises(RunError, match="no input tells the size"):
        executor.run({})
    with pytest.raises(RunError, match="float64"):
        executor.run(x=image(16).astype("float64"))


def test_a_size_outside_is_built_where_that_is_allowed(folder: Path, built: Path) -> None:
    with SizedExecutor(folder, build="any") as executor:
        assert_right(executor, built, 20)
        assert (20,) in executor.sizes


def test_nothing_is_built_on_use_where_that_is_forbidden(folder: Path) -> None:
    with SizedExecutor(folder, build="never") as executor:
        with pytest.raises(RunError, match=r"size 32 is not built \(built: 16, 48, 80\)"):
            executor.run(x=image(32))


def test_a_crash_while_building_fails_who_waits_and_leaves_the_folder_whole(
    executor: SizedExecutor, built: Path, folder: Path
) -> None:
    before = sorted(path.name for path in folder.rglob("*"))
    future = executor.prepare(32)
    assert eventually(lambda: executor._worker is not None)
    worker = executor._worker
    assert worker is not None
    os.kill(worker._process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match="size 32 could not be built: it crashed with SIGKILL"):
        future.result()
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert_right(executor, built, 16)
    # What a process leaves that is killed while it writes is no size, and is in no one's way.
    half = folder / "sizes" / ".32.killed"
    half.mkdir()
    (half / "manifest.json").write_text("{")
    assert_right(executor, built, 32)


def test_other_sizes_run_and_deadlines_hold_while_one_is_built(
    executor: SizedExecutor, built: Path
) -> None:
    future = executor.prepare(64)
    with pytest.raises(DeadlineError, match="was not built within 1e-09 s"):
        executor.run(x=image(64), deadline=1e-9)
    assert_right(executor, built, 16)
    assert future.result().inputs[0].shape == (1, 3, 8, 64)
    assert_right(executor, built, 64)


def test_closing_ends_what_is_built(executor: SizedExecutor) -> None:
    future = executor.prepare(64)
    assert eventually(lambda: executor._worker is not None)
    executor.close()
    with pytest.raises(RunError, match="the executor is closed"):
        future.result()
    with pytest.raises(RunError, match="closed"):
        executor.run(x=image(16))


def test_an_event_loop_goes_on_while_a_size_is_built(executor: SizedExecutor, built: Path) -> None:
    async def both() -> list[np.ndarray]:
        runs = (executor.run_async(x=image(width)) for width in (64, 16))
        return [outputs[0].numpy() for outputs in await asyncio.gather(*runs)]

    for width, found in zip((64, 16), asyncio.run(both()), strict=True):
        right = expected(built / "net.onnx", {"x": image(width)})
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_a_model_that_was_changed_is_not_built_from(executor: SizedExecutor, folder: Path) -> None:
    (folder / "model" / "net.onnx").write_bytes(b"another")
    with pytest.raises(ArtifactError, match="was changed or damaged"):
        executor.run(x=image(32))
    damaged = folder / "sizes" / "80" / "weights.safetensors"
    damaged.unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        executor.run(x=image(80))


def test_attention_over_lengths_that_move_together(tmp_path: Path) -> None:
    net = write_attention_net(tmp_path / "net.onnx")
    model = OpenModel(net, {"in/x": (1, [8, 24], 16)}, build="any")
    partition_sizes(model, platform(), tmp_path / "net.hetero", OPTIONS, measure=False)
    rng = np.random.default_rng(0)
    with SizedExecutor(tmp_path / "net.hetero") as executor:
        for length in (8, 24, 17):
            x = rng.standard_normal((1, length, 16)).astype("float32")
            mask = np.where(np.arange(length) < length - 3, 0, -1e9).astype("float32")
            inputs = {"in/x": x, "mask": mask.reshape(1, 1, length)}
            (found,) = executor.run(in_x=x, mask=inputs["mask"])
            np.testing.assert_allclose(found.numpy(), expected(net, inputs), rtol=1e-4, atol=1e-5)
        with pytest.raises(RunError, match="length is 8, but 24 in input in/x"):
            executor.run(in_x=np.zeros((1, 24, 16), "float32"), mask=np.zeros((1, 1, 8), "float32"))
