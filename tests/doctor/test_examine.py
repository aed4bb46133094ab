"""What the doctor says of this machine, and of systems that are folders here."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.platform.test_cgroup import V2, system
from tests.platform.test_discovery import NO_GPU, fake_machine
from tvm_hetero.compiler import linking
from tvm_hetero.doctor.cores import examine_cores
from tvm_hetero.doctor.finding import Finding
from tvm_hetero.doctor.folders import examine_folders
from tvm_hetero.doctor.kernels import describe_unit
from tvm_hetero.doctor.memory import examine_memory
from tvm_hetero.doctor.packages import examine_packages, group_requirements
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.kernels.cpu.vector_unit import AMX, SSE, known_units
from tvm_hetero.platform.host import read_machine
from tvm_hetero.util import code_folder

_HUGE = "sys/kernel/mm/transparent_hugepage/enabled"


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings}


def of_folder(root: Path, cores: Iterable[int] = range(2)) -> dict[str, Finding]:
    machine = read_machine(root, cores, NO_GPU)
    return by_name([*examine_cores(machine, root), *examine_memory(machine, root)])


def test_energy_is_measured_where_the_kernel_shows_it(tmp_path: Path) -> None:
    fake_machine(tmp_path, ["0-1"] * 2)
    assert of_folder(tmp_path)["energy"].found.startswith("not measured, watts are those given")
    for name, text in (("name", "package-0"), ("max_energy_range_uj", "9"), ("energy_uj", "1")):
        put(tmp_path, f"sys/class/powercap/intel-rapl:0/{name}", text)
    assert of_folder(tmp_path)["energy"].found == "measured, of package-0"


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_this_machine_has_each_line_once_and_its_own_cores() -> None:
    told = tvm_hetero("doctor", "--json")
    document = json.loads(told.out)
    rows = document["findings"]
    names = [row["about"] for row in rows]
    assert len(names) == len(set(names)) >= 20
    assert told.status == (1 if document["faults"] else 0)
    threads = next(row["found"] for row in rows if row["about"] == "hardware threads")
    assert threads.startswith(f"{len(os.sched_getaffinity(0))} of ")
    text = tvm_hetero("doctor").out
    # What is free, and files of a cache that others share, change from call to call.
    lasting = [row for row in rows if row["about"] not in ("memory", "cache")]
    assert all(row["found"].splitlines()[0][:60] in text for row in lasting)


def test_cores_that_are_kept_from_us_are_counted(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-3"] * 4, ["0-1", "0-1", "2-3", "2-3"])
    put(root, "sys/devices/system/cpu/online", "0-3\n")
    some, every = of_folder(root, [0, 1, 3]), of_folder(root, range(4))
    assert some["hardware threads"].found == "3 of 4: 0-1, 3" and some["hardware threads"].advice
    assert not every["hardware threads"].advice
    assert every["cores"].found.startswith("2 cores on 1 NUMA node; SMT: of each core")
    assert "one hardware thread of each" in of_folder(root, [0, 3])["cores"].found


def test_limits_of_the_group_and_huge_pages_are_told(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-1"] * 2, memory_kb=4 << 20)
    files = {"sys/fs/cgroup/job/memory.max": f"{1 << 30}\n", "sys/fs/cgroup/job/cpu.max": "5 10\n"}
    system(root, "0::/job\n", V2, files)
    put(root, _HUGE, "always madvise [never]\n")
    found = of_folder(root)
    assert found["memory"].found == "1.00 GiB, the limit of the control group"
    assert "0.5 of 2" in found["time on cores"].found and found["time on cores"].advice
    assert found["huge pages"].found == "never" and _HUGE in found["huge pages"].advice
    put(root, _HUGE, "always [madvise] never\n")
    assert not of_folder(root)["huge pages"].advice


def test_kinds_of_cores_caches_and_clocks_are_told(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0", "1"])
    cpus = "sys/devices/system/cpu"
    for index, size in enumerate(("32K", "8M", "1024K")):
        put(root, f"{cpus}/cpu0/cache/index{index}/size", size)
    put(root, f"{cpus}/cpu1/cpufreq/scaling_governor", "powersave\n")
    found = of_folder(root)
    assert found["caches"].found.startswith("L1 32.0 KiB, L2 1.00 MiB, L3 8.00 MiB (2 last-level")
    assert "--teams all" in found["kinds of cores"].advice
    assert found["clock governor"].found == "powersave" and found["clock governor"].advice


def test_a_folder_without_files_says_that_it_does_not_know(tmp_path: Path) -> None:
    found = of_folder(tmp_path)
    assert {found[name].found.split(":")[0] for name in ("caches", "memory", "huge pages")} == {
        "unknown"
    }
    assert not any(finding.advice for finding in found.values())


def test_a_cache_that_cannot_be_made_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError) as refused:
        code_folder.cache_dir()
    finding = by_name(examine_folders())["cache"]
    assert finding.is_fault and finding.advice == str(refused.value)


def test_a_home_of_nobody_and_no_temporary_folder_are_faults_and_no_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", "~nosuchuser/x")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    found = by_name(examine_folders())
    assert found["cache"].is_fault and "~nosuchuser/x cannot be found" in found["cache"].advice
    assert found["temporary files"].is_fault and "set TMPDIR" in found["temporary files"].advice
    with pytest.raises(UsageError, match="no folder for temporary files"):
        code_folder.code_folder()
    document = json.loads(tvm_hetero("doctor", "--json").out)
    assert document["faults"] >= 2


def test_without_a_compiler_the_status_is_1_and_the_cure_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(PlatformError) as refused:
        linking.own_compiler()
    told = tvm_hetero("doctor")
    assert told.status == 1
    assert str(refused.value) in told.out and told.out.rstrip().endswith("changed: compiler")


def test_every_unit_says_what_it_has() -> None:
    assert all(f"vectors of {unit.bits} bits" in describe_unit(unit) for unit in known_units())
    assert "AMX" in describe_unit(AMX) and "AMX" not in describe_unit(SSE)
    assert len({describe_unit(unit) for unit in known_units()}) > 5


def test_extras_are_those_of_the_package() -> None:
    groups = group_requirements(metadata.requires("tvm_hetero") or [])
    assert {"serve", "torch", "ray", "text"} <= set(groups)
    assert "numpy" in {each.name for each in groups[""]}


def test_a_version_that_does_not_fit_is_a_fault_with_its_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits = ["numpy>=1", 'nosuch; extra == "x"', 'numpy<1; extra == "y"', 'gone; os_name == "nt"']
    monkeypatch.setattr(metadata, "requires", lambda name: fits)
    found = by_name(examine_packages())
    assert not found["requirements"].is_fault
    assert found["extra x"].found == "without nosuch (pip install 'tvm_hetero[x]')"
    version = metadata.version("numpy")
    assert found["extra y"].found.startswith(f"numpy {version}, expected <1 (pip")
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy<1", "nosuch"])
    finding = by_name(examine_packages())["requirements"]
    assert finding.is_fault and finding.advice == "pip install 'numpy<1' nosuch"
    assert finding.found == f"numpy {version}, expected <1; without nosuch"
