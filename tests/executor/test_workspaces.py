"""Workspaces of compiled kernels: ours, in huge pages, the same ones from run to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te

from tests.executor import workspaces
from tests.executor.native_plans import run_python
from tests.models import lowered, random_schedule, two_cpus, unit_problem
from tests.waiting import eventually
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.linking import export_library
from tvm_hetero.errors import RunError
from tvm_hetero.executor import native
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.convolution.winograd.kernel import WINOGRAD
from tvm_hetero.passes.annotate_devices import annotate_devices

X = np.random.default_rng(0).standard_normal((1, 16, 130, 130)).astype("float32")
TILED = np.random.default_rng(0).standard_normal((1, 64, 28, 28)).astype("float32")
HUGE = 2 << 20
MANY = 200  # more than three runs take workspaces


def inject(nth: int) -> None:
    tvm_ffi.get_global_func("tvm_hetero.inject_fault")("workspace", nth)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    native.load_library()
    yield
    inject(0)


@pytest.fixture(scope="module")
def padded() -> Executable:
    """Two convolutions, each of which pads its image to a megabyte."""
    return convolutions(X, window=5)


@pytest.fixture(scope="module")
def by_tiles() -> Executable:
    """Two convolutions by tiles, which take workspaces inside of workspaces."""
    built = convolutions(TILED, window=3)
    assert {choice.rule for choice in built.choices} == {WINOGRAD}
    return built


def convolutions(image: np.ndarray, window: int) -> Executable:
    """Two of them, one after the other, of images and windows of that size."""
    channels, padding = image.shape[1], window // 2
    weights = np.random.default_rng(1).standard_normal((channels, channels, window, window))
    weight = relax.const(weights.astype("float32"))
    x = relax.Var("x", relax.TensorType(image.shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.conv2d(x, weight, padding=padding))
            second = builder.emit(relax.op.nn.conv2d(first, weight, padding=padding))
            out = builder.emit_output(second)
        builder.emit_func_output(out)
    module = lowered(builder.get(), two_cpus())
    problem = unit_problem(module, two_cpus())
    annotated = annotate_devices(module, problem, random_schedule(problem, 1))
    return build(annotated, single=False)


def test_in_the_steady_state_none_is_allocated(padded: Executable) -> None:
    held = workspaces.held_bytes()
    with Executor(padded) as executor:
        executor.benchmark({"input0": X}, repeat=3)
        settled = workspaces.allocations()
        assert workspaces.held_bytes() - held >= HUGE  # a padded image is more than a megabyte
        executor.benchmark({"input0": X}, repeat=10)
        executor.throughput({"input0": X}, batches=10)
        assert workspaces.allocations() == settled
    assert eventually(lambda: workspaces.held_bytes() == held), "the workers' go with them"


@pytest.mark.parametrize(("kernels", "image"), [("padded", X), ("by_tiles", TILED)])
def test_the_nth_that_fails_ends_its_request_alone_and_is_told_with_the_task(
    kernels: str, image: np.ndarray, request: pytest.FixtureRequest
) -> None:
    with Executor(request.getfixturevalue(kernels)) as executor:
        [expected] = executor.run(input0=image)
        executor.benchmark({"input0": image}, repeat=3)
        settled = workspaces.allocations()
        for nth in range(1, MANY):
            inject(nth)
            pending = [executor.submit(input0=image) for _ in range(3)]
            errors = [each.exception(60) for each in pending]
            inject(0)
            failed = [error for error in errors if error is not None]
            assert all(isinstance(error, RunError) for error in failed)
            if not failed:
                break
            assert len(failed) == 1
            assert f"injected fault: workspace {nth}" in str(failed[0])
            assert "task '0.conv2d" in str(failed[0]) or "task '1.conv2d" in str(failed[0])
            for each, error in zip(pending, errors, strict=True):
                if error is None:
                    assert each.result()[0].numpy().tobytes() == expected.numpy().tobytes()
            assert executor.run(input0=image)[0].numpy().tobytes() == expected.numpy().tobytes()
        assert 3 < nth < MANY - 1
        assert workspaces.allocations() == settled, "what a kernel kept that failed is lost"


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose kernel takes a workspace in each thread of TVM's pool: y = 2 (x + 1)."""
    x = te.placeholder((2, 4096), name="x")
    more = te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="more")
    y = te.compute(x.shape, lambda i, j: more[i, j] * 2.0, name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]).with_attr("global_symbol", "twice"))
    rows, _ = schedule.get_loops(schedule.get_sblock("y"))
    schedule.parallel(rows)
    schedule.compute_at(schedule.get_sblock("more"), rows)
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 2})
    path = tmp_path_factory.mktemp("threaded") / "threaded.so"
    export_library(tvm.tirx.build(schedule.mod, target=target), path, target)
    return path


def test_threads_of_tvms_pool_take_ours(threaded: Path) -> None:
    kernel = load_kernels(threaded)["twice"]
    x = tvm.runtime.tensor(np.ones((2, 4096), "float32"))
    y = tvm.runtime.tensor(np.zeros((2, 4096), "float32"))
    for _ in range(3):
        kernel(x, y)
    settled = workspaces.allocations()
    inject(1000)
    for _ in range(10):
        kernel(x, y)
    assert tvm_ffi.get_global_func("tvm_hetero.fault_count")("workspace") == 20
    assert workspaces.allocations() == settled
    for nth in (1, 2):
        inject(nth)
        with suppress(RuntimeError):  # TVM's pool may lose it (thread_pool.cc, SignalJobError)
            kernel(x, y)
        inject(0)
        kernel(x, y)
        assert (y.numpy() == 4).all()
    assert workspaces.allocations() == settled


@pytest.mark.parametrize("first", ["import tvm", "pass"])
def test_it_is_all_one_which_library_is_loaded_first(threaded: Path, first: str) -> None:
    """And the process ends well, with workspaces of its main thread and of TVM's pool."""
    printed = run_python(f"""
        import ctypes, numpy as np
        {first}
        ctypes.CDLL(str(native.LIBRARY))
        register = tvm_ffi.get_global_func("tvm_hetero.register_kernel_context")
        register()
        import tvm
        from pathlib import Path
        from tests.executor import workspaces
        from tvm_hetero.executor.kernel_library import load_kernels
        native.load_library()
        kernel = load_kernels(Path({str(threaded)!r}))["twice"]
        register()
        x = tvm.runtime.tensor(np.ones((2, 4096), "float32"))
        kernel(x, x)
        print(workspaces.allocations(), workspaces.held_bytes())
    """)
    blocks, held = map(int, printed.split())
    assert blocks >= 1
    assert held == blocks * 4 * 4096
