"""Models that come, go and change while they are asked."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
from pathlib import Path

import pytest

from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models.pool_dispatcher import PoolDispatcher
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.models.served_model import READY, UNAVAILABLE, ServedModel
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES


@pytest.fixture
def folder(served_models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(served_models / "dense.hetero", tmp_path / "dense.hetero"))


def _put(source: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(source, folder)


def _repository(folder: Path) -> Repository:
    repository = Repository()
    repository.enter("dense", folder)
    return repository


def _standing(repository: Repository) -> tuple[str, str]:
    standing = dict(repository)["dense"]
    return standing.state, standing.reason


async def _compute(model: ServedModel) -> object:
    assert model.tensors is not None
    query = InferenceQuery(model.tensors.executor.random_inputs(1))
    return (await model.tensors.compute(query)).outputs


def test_versions_count_up_and_never_come_again(folder):
    async def main():
        repository = _repository(folder)
        assert (await repository.load("dense")).version == "1"
        assert (await repository.load("dense")).version == "2"
        await repository.unload("dense")
        assert (await repository.load("dense")).version == "3"
        assert repository.find("dense", "3").version == "3"
        await repository.close()

    asyncio.run(main())


def test_a_load_that_fails_leaves_the_old_version_in_its_place(folder):
    async def main():
        repository = _repository(folder)
        old = await repository.load("dense")
        (folder / "manifest.json").write_text("{}")
        with pytest.raises(HeteroError):
            await repository.load("dense")
        assert repository.find("dense") is old
        state, reason = _standing(repository)
        assert (state, bool(reason)) == (READY, True)
        assert await _compute(old)
        await repository.close()

    asyncio.run(main())


def test_a_version_of_another_signature_is_served_only_where_that_is_asked_for(
    folder, served_models
):
    async def main():
        repository = _repository(folder)
        old = await repository.load("dense")
        _put(served_models / "branchy.hetero", folder)
        with pytest.raises(UsageError, match=r"another signature: in .* became in .*another name"):
            await repository.load("dense")
        assert repository.find("dense") is old
        new = await repository.load("dense", may_change=True)
        assert repository.find("dense") is new
        assert await repository.load("dense") is not new  # its signature is the one that counts now
        await repository.close()

    asyncio.run(main())


def test_the_old_version_is_closed_when_who_found_it_is_done(folder):
    async def main():
        repository = _repository(folder)
        old = await repository.load("dense")
        user = object()
        old.users.add(user)
        new = await repository.load("dense")
        assert repository.find("dense") is new
        for _ in range(10):
            await asyncio.sleep(0.01)
            assert await _compute(old)  # it was found before the switch, so it answers
        old.users.discard(user)
        await repository.close()
        with pytest.raises(HeteroError):
            await _compute(old)

    asyncio.run(main())


class _Watched(PoolDispatcher):
    """Notes whether a model that it is told to forget was closed before."""

    def remove(self, name: str, version: str) -> None:
        with pytest.raises(HeteroError, match="closed"):
            self.old.executor.run(self.old.executor.random_inputs(1))
        super().remove(name, version)
        self.forgotten = version


def test_the_pool_knows_a_model_until_its_last_step_has_had_its_turn(folder):
    async def main():
        pool = _Watched(sorted(os.sched_getaffinity(0)), SHARE_POLICIES["accordion"], 8)
        repository = Repository(None, pool)
        repository.enter("dense", folder)
        pool.old = (await repository.load("dense")).tensors
        await repository.unload("dense")
        assert pool.forgotten == "1"
        assert not pool.profile.models

    asyncio.run(main())


def test_loads_and_unloads_of_one_name_take_turns(folder):
    async def main():
        repository = _repository(folder)
        changes = [repository.load("dense"), repository.load("dense"), repository.unload("dense"),
                   repository.load("dense"), repository.unload("dense")]  # fmt: skip
        done = await asyncio.gather(*changes)
        assert [model and model.version for model in done] == ["1", "2", None, "3", None]
        assert _standing(repository) == (UNAVAILABLE, "unloaded")
        await repository.close()

    asyncio.run(main())


def test_no_more_than_a_few_changes_of_a_name_wait(folder):
    async def main():
        repository = _repository(folder)
        changes = (repository.load("dense") for _ in range(12))
        done = await asyncio.gather(*changes, return_exceptions=True)
        refused = [each for each in done if isinstance(each, RefusedError)]
        assert len(refused) == 4
        assert all("wait already" in str(each) for each in refused)
        await repository.close()

    asyncio.run(main())


def test_who_asked_for_a_load_and_hangs_up_does_not_end_it(folder):
    async def main():
        repository = _repository(folder)
        loading = asyncio.ensure_future(repository.load("dense"))
        await asyncio.sleep(0)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        await repository.load("dense")
        assert repository.find("dense").version == "2"
        await repository.close()

    asyncio.run(main())


def test_nothing_is_loaded_when_the_server_is_ending(folder):
    async def main():
        repository = _repository(folder)
        begun = asyncio.ensure_future(repository.load("dense"))
        waiting = asyncio.ensure_future(repository.load("dense"))
        await asyncio.sleep(0.001)
        repository.close_door()
        assert (await begun).version == "1"  # it had begun
        with pytest.raises(RefusedError, match="shutting down"):
            await waiting
        with pytest.raises(RefusedError, match="shutting down"):
            await repository.unload("dense")
        await repository.close()

    asyncio.run(main())


def test_queries_during_twenty_changes_are_all_answered(folder):
    async def main():
        repository = _repository(folder)
        await repository.load("dense")
        answered = 0
        is_over = False

        async def ask():
            nonlocal answered
            while not is_over:
                model = repository.find("dense")
                model.statistics.begin()
                try:
                    await _compute(model)
                finally:
                    model.statistics.pending -= 1
                answered += 1

        askers = [asyncio.ensure_future(ask()) for _ in range(3)]
        for _ in range(20):
            await repository.load("dense")
        is_over = True
        await asyncio.gather(*askers)
        assert answered > 20
        assert repository.find("dense").version == "21"
        await repository.close()

    asyncio.run(main())


def _held() -> tuple[int, int, int]:
    """Threads, open files and mapped libraries of this process."""
    maps = Path("/proc/self/maps").read_text()
    libraries = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), len(libraries)


def test_what_is_loaded_and_unloaded_twenty_times_leaves_nothing_behind(folder):
    async def main():
        repository = _repository(folder)

        async def cycle(count):
            for _ in range(count):
                model = await repository.load("dense")
                assert await _compute(model)
                del model
                await repository.unload("dense")
            gc.collect()
            return _held()

        before = await cycle(3)
        held = await cycle(20)  # what others had left open may be gone since
        assert all(now <= then for now, then in zip(held, before, strict=True)), (held, before)
        await repository.close()

    asyncio.run(main())
