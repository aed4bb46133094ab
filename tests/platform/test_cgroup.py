"""What control groups leave to this process, on systems that are folders here."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tvm_hetero.platform.cgroup import GroupLimits, read_group_limits, read_group_room
from tvm_hetero.platform.discovery import detect_devices
from tvm_hetero.platform.host import read_free_memory, read_memory

GIB = 1 << 30
V1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
)
V2 = "30 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def system(root: Path, own: str, mounts: str, files: dict[str, str]) -> Path:
    """A root with the files of a system."""
    written = {"proc/self/cgroup": own, "proc/self/mountinfo": mounts, **files}
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_least_limit_of_a_group_and_all_above_it_counts(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/user.slice/memory.max": f"{3 * GIB}\n",
        "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
        "sys/fs/cgroup/user.slice/job.service/memory.max": "max\n",
        "sys/fs/cgroup/user.slice/job.service/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/other.slice/memory.max": "4096\n",
    }
    root = system(tmp_path, "0::/user.slice/job.service\n", V2, files)
    assert read_group_limits(root) == GroupLimits(3 * GIB, 1.5)
    assert read_memory(root) == 3 * GIB


def test_what_is_free_ends_at_the_limit_of_a_group(tmp_path: Path) -> None:
    """A container of 3 GiB was told of all that the machine had free."""
    files = {
        "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {40 << 20} kB\n",
        "sys/fs/cgroup/user.slice/memory.max": f"{3 * GIB}\n",
        "sys/fs/cgroup/user.slice/memory.current": f"{2 * GIB}\n",
        "sys/fs/cgroup/user.slice/memory.stat": f"anon 7\ninactive_file {GIB // 2}\nodd\n",
        "sys/fs/cgroup/user.slice/job.service/memory.max": "max\n",
        "sys/fs/cgroup/user.slice/job.service/memory.current": "4096\n",
    }
    root = system(tmp_path, "0::/user.slice/job.service\n", V2, files)
    assert read_group_room(root) == read_free_memory(root) == 3 * GIB // 2
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 1024 kB\n")
    assert read_free_memory(root) == 1 << 20
    older = {
        "proc/meminfo": f"MemAvailable: {40 << 20} kB\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{3 * GIB}\n",
    }
    assert read_free_memory(system(tmp_path / "v1", "5:memory:/job\n", V1, older)) == 0


def test_both_versions_at_once(tmp_path: Path) -> None:
    own = "5:memory:/slurm/job_7\n2:cpu,cpuacct:/slurm/job_7\n1:name=systemd:/\n0::/\n"
    files = {
        "sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes": "1572864000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000\n",
    }
    root = system(tmp_path, own, V1, files)
    assert read_group_limits(root) == GroupLimits(1572864000, 0.5)


@pytest.mark.parametrize(
    ("own", "top"),
    [("0::/docker/abc\n", "/docker/abc"), ("0::/../../other\n", "/docker/abc"), ("0::/\n", "/")],
)
def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path, own: str, top: str) -> None:
    mounts = V2.replace(" / /sys", f" {top} /sys")
    root = system(tmp_path, own, mounts, {"sys/fs/cgroup/memory.max": "4096\n"})
    assert read_group_limits(root).memory == 4096


@pytest.mark.parametrize("text", ["", "x", "0::", "5:memory\n:::\n"])
def test_what_is_missing_or_odd_limits_nothing(tmp_path: Path, text: str) -> None:
    files = {"sys/fs/cgroup/cpu.max": text, "sys/fs/cgroup/memory.max": text}
    assert read_group_limits(system(tmp_path, text, text, files)) == GroupLimits()


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("50000", [(0,)]), ("199999", [(0,)]), ("200000", [(0,), (2,)]), ("max", [(0, 2), (4, 6)])],
)
def test_no_more_devices_than_there_is_time_for(
    tmp_path: Path, quota: str, cores: list[tuple[int, ...]]
) -> None:
    files = {"sys/fs/cgroup/cpu.max": f"{quota} 100000\n"}
    for number in range(8):  # two threads a core
        first = number // 2 * 2
        name = f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        files[name] = f"{first}-{first + 1}\n"
    root = system(tmp_path, "0::/\n", V2, files)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
            found = detect_devices(root=root, nvidia_smi="none")
    assert [device.cores for device in found] == cores
    assert bool(told) == (quota != "max")
    if told:
        assert f"the time of {int(quota) / 1e5:g} of 8 cores" in str(told[0].message)
