"""Executors that keep their pipeline in shape, as users get them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tvm_hetero as th
from tests.online.live.models import INPUTS, WAIT, adaptable, as_bytes, streaming
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.online.live.adapter import AdaptationEvent
from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adaptive") / "net.hetero"
    adaptable().save(path)
    return path


def test_a_saved_model_is_loaded_with_a_policy_and_tells_what_it_does(folder: Path) -> None:
    events: list[AdaptationEvent] = []
    told = threading.Event()

    def tell(event: AdaptationEvent) -> None:
        events.append(event)
        told.set()

    with th.load(folder, adapt="static", on_event=tell) as executor:
        assert isinstance(executor, AdaptiveExecutor)
        assert (executor.policy, executor.idle, executor.failure) == ("static", "", None)
        with streaming(executor):
            assert told.wait(WAIT)
        outputs = as_bytes(executor.run(INPUTS))
    assert executor.failure is None
    assert events[0].phase == "keep" and not events[0].switched
    assert events[0].configuration == "the artifact's own plan on big, little"
    with th.load(folder) as plain:
        assert outputs == as_bytes(plain.run(INPUTS))
    assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}


def test_resolve_leaves_equal_places_alone_and_other_policies_do_not() -> None:
    made = adaptable(equal=True)
    with AdaptiveExecutor(made) as executor:
        assert "equal cores run each other's steps" in executor.idle
        before = executor.variant
        executor.run(INPUTS)
        assert executor.variant == before and executor.failure is None
        assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}
    with AdaptiveExecutor(made, "odin") as executor:
        assert executor.idle == ""


def test_with_one_place_there_is_nothing_to_adapt() -> None:
    for policy in ("resolve", "odin"):
        with AdaptiveExecutor(adaptable(single=True), policy) as executor:
            assert "one place only" in executor.idle
            assert executor.run(INPUTS)


def test_a_closed_executor_has_ended_its_policy_even_if_no_request_came() -> None:
    executor = AdaptiveExecutor(adaptable(), "hill-climbing")
    executor.close()
    executor.close()
    assert executor.failure is None
    assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}


def test_what_cannot_be_adapted_is_refused(
    folder: Path, executable: Executable, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no policy 'resolv'; did you mean"):
        th.load(folder, adapt="resolv")
    with pytest.raises(UsageError, match="leave out the variant"):
        th.load(folder, "partition", adapt="resolve")
    with pytest.raises(UsageError, match="alpha, window, trial and patience are at least 1"):
        th.load(folder, adapt="odin", alpha=0)
    executable.save(tmp_path / "fixed.hetero")
    with pytest.raises(UsageError, match="for throughput"):
        th.load(tmp_path / "fixed.hetero", adapt="resolve")
    with pytest.raises(ArtifactError):
        th.load(tmp_path / "nothing.hetero", adapt="resolve")
    (tmp_path / "sizes.hetero").mkdir()
    (tmp_path / "sizes.hetero" / "sizes.json").write_text("{}")
    with pytest.raises(UsageError, match="not adapted"):
        th.load(tmp_path / "sizes.hetero", adapt="resolve")
    assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}
