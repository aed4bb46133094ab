"""The figures of parts agree with each other, and the files of real machines are made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.platform_files import CLUSTERS, file_text, main, platform_text
from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Platform
from tvm_hetero.zoo.costs import family_of
from tvm_hetero.zoo.hardware import (
    GPUS,
    HOSTS,
    NETWORKS,
    NVLINK,
    PCIE,
    SERVERS,
    half_rates,
    machine,
    sources,
)
from tvm_hetero.zoo.platforms import PRESETS, cluster, platform
from tvm_hetero.zoo.processing_in_memory import PIM_SERVERS


@pytest.mark.parametrize("name", [*SERVERS, *PIM_SERVERS, *CLUSTERS])
def test_the_files_are_made_of_the_parts(name: str):
    committed = (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")
    assert committed == file_text(name), "run benchmarks/platform_files.py"
    assert all(len(line) <= 140 for line in committed.splitlines())


@pytest.mark.parametrize("name", SERVERS)
def test_a_file_says_the_same_as_the_machine(name: str):
    assert platform_text(platform(name), []) == platform_text(machine(name), [])
    text = (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")
    plain = " ".join(line.lstrip("# ") for line in text.splitlines())
    assert all(source in plain for source in sources(name))


def test_files_are_written_where_they_are_wanted(tmp_path):
    paths = main(["--output", str(tmp_path)])
    assert len(paths) == len(SERVERS) + len(PIM_SERVERS) + len(CLUSTERS)
    assert Platform.load(tmp_path / "gpt3-4node.yaml").name == "gpt3-4node"


@pytest.mark.parametrize("name", HOSTS)
def test_the_peak_of_processors_is_cores_times_width_times_clock(name: str):
    host = HOSTS[name]
    exact = host.cores * host.flops_per_cycle * host.hertz
    assert host.peak_flops == pytest.approx(exact, rel=0.02)
    assert host.idle_watts < host.watts


@pytest.mark.parametrize("name", GPUS)
def test_gpus_are_in_proportion(name: str):
    """A unit error (bits for bytes, sparse for dense, two directions for one) would show."""
    gpu = GPUS[name]
    assert 3.9 < gpu.half < 16.1  # dense rates of tensor cores, not those with sparsity
    assert 9 < gpu.peak_flops / gpu.bandwidth < 110
    assert 0.004 < gpu.memory / gpu.bandwidth < 0.09  # a memory is read through in 5 to 90 ms
    assert gpu.idle_watts < gpu.watts <= 700
    assert gpu.source[-1] != "." and "20" in gpu.source


def test_generations_double():
    assert [NVLINK[g].line for g in (3, 4, 5)] == [300e9, 450e9, 900e9]
    for older, newer in ((3, 4), (4, 5)):
        assert PCIE[newer].line == pytest.approx(2 * PCIE[older].line, rel=0.01)
    # 16 lanes of 8 GT/s, 128 of 130 bits, 8 bits a byte.
    assert PCIE[3].line == pytest.approx(16 * 8e9 * 128 / 130 / 8, rel=0.01)
    for wire in PCIE.values():
        assert 0.7 < wire.bandwidth / wire.line < 0.85


def test_networks_are_named_by_their_rate_in_bits():
    for name, gigabits in (("ethernet-10", 10), ("ethernet-25", 25), ("ethernet-100", 100),
                           ("infiniband-hdr", 200), ("infiniband-ndr", 400)):  # fmt: skip
        assert 8 * NETWORKS[name].bandwidth == gigabits * 1e9


def test_costs_take_the_16_bit_rates_from_here():
    for name in SERVERS:
        for device in machine(name).devices:
            known = device.target.get("arch") or device.target["mcpu"]  # type: ignore[union-attr]
            assert family_of(device).half == pytest.approx(half_rates().get(known, 1.0))


def test_of_two_parts_of_one_architecture_the_first_gives_the_rate():
    assert half_rates()["sm_90"] == GPUS["h100-sxm"].half


def test_a_cluster_is_no_machine_of_a_cluster():
    with pytest.raises(UsageError, match="'gpt3-6node' is a cluster of 6 machines"):
        cluster([("gpt3-6node", 2)])


def test_six_servers_are_the_cluster_of_the_case_study():
    same = replace(platform("diviml-6"), name="gpt3-6node")
    assert platform_text(platform("gpt3-6node"), []) == platform_text(same, [])
