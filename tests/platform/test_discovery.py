"""This machine and made-up ones, described as platforms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Platform, discovery
from tvm_hetero.platform.discovery import (
    _RAPIDS,
    _V3,
    _V4,
    _ZEN4,
    _ZEN5,
    default_devices,
    missing_features,
    native_mcpu,
    split_cores,
)
from tvm_hetero.platform.host import (
    Core,
    Machine,
    Processor,
    parse_core_list,
    read_core_kind,
    read_gpus,
    read_machine,
    read_memory,
    read_processor,
)

NO_GPU = "no-such-nvidia-smi"


def fake_machine(
    root: Path,
    caches: list[str],
    siblings: list[str] | None = None,
    flags: frozenset[str] | set[str] = frozenset(_V3),
    vendor: str = "GenuineIntel",
    family: int = 6,
    memory_kb: int = 1024,
) -> Path:
    """Write the files of a machine: `caches[i]` and `siblings[i]` as Linux writes them."""
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 143\n"
        f"model name\t: A CPU @ 2GHz\nstepping\t: 8\nflags\t\t: {' '.join(sorted(flags))}\n\n"
        "processor\t: 1\nvendor_id\t: other\n"
    )
    (root / "proc/meminfo").write_text(f"MemTotal:  {memory_kb} kB\nMemFree:  12 kB\n")
    for i, shared in enumerate(caches):
        cpu = root / f"sys/devices/system/cpu/cpu{i}"
        for index, (level, who) in enumerate([(1, str(i)), (3, shared), (2, str(i))]):
            (cpu / f"cache/index{index}").mkdir(parents=True)
            (cpu / f"cache/index{index}/level").write_text(f"{level}\n")
            (cpu / f"cache/index{index}/shared_cpu_list").write_text(f"{who}\n")
        (cpu / "topology").mkdir()
        own = siblings[i] if siblings else str(i)
        (cpu / "topology/thread_siblings_list").write_text(f"{own}\n")
        (cpu / "node0").mkdir()
    return root


def fake_smi(folder: Path, text: str, status: int = 0) -> str:
    """A program that answers like nvidia-smi."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


# -- this machine -------------------------------------------------------------------------------


def test_this_machine_is_described_with_its_own_cores() -> None:
    platform = Platform.detect(nvidia_smi=NO_GPU)
    cores = [core for device in platform.devices for core in device.cores]
    assert cores and set(cores) <= os.sched_getaffinity(0)
    assert len(cores) == len(set(cores))
    for device in platform.devices:
        assert device.kind == "llvm" and not device.overlap
        assert device.target is not None and device.target["num-cores"] == len(device.cores)
        assert (device.peak_flops, device.bandwidth, device.launch) == (None, None, None)


def test_this_machine_survives_a_file(tmp_path: Path) -> None:
    platform = Platform.detect()
    platform.save(tmp_path / "here.yaml")
    assert Platform.load(tmp_path / "here.yaml") == platform
    assert Platform.detect() == platform


def test_discovery_does_not_import_tvm() -> None:
    code = (
        "import sys; from tvm_hetero.platform import Platform; Platform.detect();"
        "sys.exit('tvm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- rules --------------------------------------------------------------------------------------


def test_several_cores_become_two_devices(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-3"] * 4)
    platform = Platform.detect(root=root, cores=range(4), nvidia_smi=NO_GPU)
    assert [(d.name, d.cores) for d in platform.devices] == [("cpu0", (0, 1)), ("cpu1", (2, 3))]
    assert [d.memory for d in platform.devices] == [1024 * 1024] * 2


def test_one_core_becomes_one_device(tmp_path: Path) -> None:
    platform = Platform.detect(root=fake_machine(tmp_path, ["0"]), cores=[0], nvidia_smi=NO_GPU)
    assert platform.names == ("cpu0",)


def test_two_threads_of_one_core_are_one_device_unless_asked(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-1"] * 2, ["0-1"] * 2)
    alone = Platform.detect(root=root, cores=[0, 1], nvidia_smi=NO_GPU)
    assert [d.cores for d in alone.devices] == [(0,)]
    both = Platform.detect(2, root=root, cores=[0, 1], nvidia_smi=NO_GPU)
    assert [d.cores for d in both.devices] == [(0,), (1,)]


def test_gpus_are_listed_beside_one_cpu_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    smi = fake_smi(
        tmp_path,
        "0, GPU-aa, NVIDIA H100 80GB HBM3, 81559, 9.0\n1, GPU-bb, NVIDIA A10, 23028, 8.6",
    )
    root = fake_machine(tmp_path, ["0-3"] * 4)
    platform = Platform.detect(root=root, cores=range(4), nvidia_smi=smi)
    assert platform.names == ("cpu0", "gpu0", "gpu1")
    assert platform.device("cpu0").cores == (0, 1, 2, 3)
    gpu = platform.device("gpu1")
    assert gpu.target == {"kind": "cuda", "arch": "sm_86"}
    assert gpu.memory == 23028 * 1024**2 and gpu.overlap


@pytest.mark.parametrize(
    ("visible", "names"),
    [("1", ["B"]), ("1,0", ["B", "A"]), ("", []), ("0,7,1", ["A"]), ("GPU-b", ["B"])],
)
def test_hidden_gpus_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, names: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    smi = fake_smi(tmp_path, "0, GPU-aa, A, 100, 9.0\n1, GPU-bb, B, 100, 9.0")
    assert [gpu.name for gpu in read_gpus(smi)] == names


def test_a_driver_that_fails_means_no_gpus(tmp_path: Path) -> None:
    assert read_gpus(fake_smi(tmp_path, "NVIDIA-SMI has failed", status=9)) == ()
    assert read_gpus(fake_smi(tmp_path, "No devices were found")) == ()


def test_mcpus_are_given_device_by_device(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-1"] * 2, flags=frozenset(_V4))
    platform = Platform.detect(2, [None, "x86-64-v3"], root=root, cores=[0, 1], nvidia_smi=NO_GPU)
    assert [dict(d.target or {})["mcpu"] for d in platform.devices] == ["x86-64-v4", "x86-64-v3"]
    with pytest.raises(UsageError, match="3 values of mcpu for 2"):
        Platform.detect(2, [None, "a", "b"], root=root, cores=[0, 1], nvidia_smi=NO_GPU)


@pytest.mark.parametrize("devices", [0, 3])
def test_a_number_of_devices_that_cannot_be(tmp_path: Path, devices: int) -> None:
    root = fake_machine(tmp_path, ["0-1"] * 2)
    with pytest.raises(UsageError, match=f"{devices} CPU devices of 2"):
        Platform.detect(devices, root=root, cores=[0, 1], nvidia_smi=NO_GPU)


def test_cores_are_cut_between_caches(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0,2,4"] * 1 + ["1,3,5"] + ["0,2,4", "1,3,5"] * 2)
    platform = Platform.detect(root=root, cores=range(6), nvidia_smi=NO_GPU)
    assert [d.cores for d in platform.devices] == [(0, 2, 4), (1, 3, 5)]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    parts=st.integers(1, 8),
    threads=st.integers(1, 2),
)
def test_splitting_keeps_every_physical_core_once(
    sizes: list[int], parts: int, threads: int
) -> None:
    cache_of = [cache for cache, size in enumerate(sizes) for _ in range(size)]
    n = len(cache_of)
    cores = [
        Core(number=i + n * t, physical=i, cache=cache)
        for i, cache in enumerate(cache_of)
        for t in range(threads)
    ]
    if parts > len(cores):
        with pytest.raises(UsageError):
            split_cores(cores, parts)
        return
    groups = split_cores(cores, parts)
    used = [number for group in groups for number in group]
    assert len(groups) == parts and all(groups) and len(used) == len(set(used))
    if parts <= n:
        assert sorted(used) == list(range(n))
    if parts <= len(sizes):  # no cache is divided
        owners = [{cache_of[number] for number in group} for group in groups]
        assert sum(len(o) for o in owners) == len(set().union(*owners))


def test_even_caches_are_divided_evenly() -> None:
    cores = [Core(i, i, cache=i // 4) for i in range(32)]
    assert [len(group) for group in split_cores(cores, 4)] == [8, 8, 8, 8]
    assert sorted(len(group) for group in split_cores(cores, 3)) == [8, 12, 12]


def test_default_devices_counts_physical_cores() -> None:
    smt = Machine(Processor(), (Core(0, 0), Core(1, 0)), None)
    assert default_devices(smt) == 1


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "mcpu"),
    [
        ("AuthenticAMD", 26, _ZEN5, "znver5"),
        ("AuthenticAMD", 26, _ZEN4, "znver4"),
        ("AuthenticAMD", 25, _ZEN4, "znver4"),
        ("AuthenticAMD", 26, _V4, "x86-64-v4"),
        ("GenuineIntel", 6, _V4, "x86-64-v4"),
        ("GenuineIntel", 6, _ZEN4, "cooperlake"),
        ("GenuineIntel", 6, _RAPIDS - {"amx_bf16"}, "cooperlake"),
        ("GenuineIntel", 6, _RAPIDS | {"amx_complex"}, "sapphirerapids"),
        ("AuthenticAMD", 26, _RAPIDS, "znver4"),
        ("AuthenticAMD", 23, _V3, "x86-64-v3"),
        ("GenuineIntel", 6, _V4 - {"fma"}, "x86-64-v2"),
        ("GenuineIntel", 6, {"sse2"}, "x86-64"),
        ("0x41", 8, {"asimd"}, None),
    ],
)
def test_mcpu_follows_what_the_cpu_has(
    vendor: str, family: int, flags: set[str], mcpu: str | None
) -> None:
    assert native_mcpu(Processor(vendor, family, flags=frozenset(flags))) == mcpu


def test_cpuinfo_is_read_from_its_first_processor(tmp_path: Path) -> None:
    processor = read_processor(fake_machine(tmp_path, ["0"]))
    assert processor.identity == "GenuineIntel 6/143/8 A CPU @ 2GHz"
    assert processor.flags == _V3


def test_tile_registers_count_where_they_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = read_processor().flags
    monkeypatch.setattr("tvm_hetero.platform.host.ask_for_tiles", lambda: False)
    assert read_processor().flags == {flag for flag in flags if not flag.startswith("amx_")}


def test_an_empty_root_is_a_vague_machine(tmp_path: Path) -> None:
    machine = read_machine(tmp_path, [3, 1], NO_GPU)
    assert machine.processor == Processor() and machine.memory is None
    assert machine.cores == (Core(1, 1), Core(3, 3))


def test_a_container_limits_memory(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0"], memory_kb=4096)
    groups = root / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (groups / "memory.max").write_text("max\n")
    assert read_memory(root) == 4096 * 1024
    (groups / "memory.max").write_text("1048576\n")
    assert read_memory(root) == 1048576


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("a-b", ()), ("1-", ()), ("0-1-2", ())],
)
def test_core_lists(text: str, cores: tuple[int, ...]) -> None:
    assert parse_core_list(text) == cores


def test_code_for_a_newer_cpu_is_told_by_what_is_missing() -> None:
    old = Processor("GenuineIntel", 6, flags=frozenset(discovery._V3))
    assert missing_features({"kind": "llvm", "mcpu": "x86-64-v3"}, old) == []
    assert "avx512f" in missing_features({"kind": "llvm", "mcpu": "x86-64-v4"}, old)
    assert "avx_vnni" in missing_features({"kind": "llvm", "mcpu": "znver5"}, old)
    # Of these nothing is known, so nothing is refused.
    for target in (None, {"kind": "cuda"}, {"kind": "llvm"}, {"kind": "llvm", "mcpu": "skylake"}):
        assert missing_features(target, old) == []
    assert missing_features({"kind": "llvm", "mcpu": "znver5"}, Processor()) == []


def test_cores_of_one_kind_look_alike_and_big_and_little_ones_do_not(tmp_path: Path) -> None:
    for number, (capacity, cache) in enumerate([("1024", "2M"), ("1024", "2M"), ("512", "1M")]):
        core = tmp_path / f"sys/devices/system/cpu/cpu{number}"
        (core / "cache/index2").mkdir(parents=True)
        (core / "cpu_capacity").write_text(f"{capacity}\n")
        (core / "cache/index2/size").write_text(f"{cache}\n")
    big, other, little, missing = (read_core_kind(n, tmp_path) for n in range(4))
    assert big == other and big != little
    assert not any(missing)
