from __future__ import annotations

import re

import pytest

from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Platform
from tvm_hetero.zoo.platforms import NETWORKS, PRESETS, cluster, platform, platform_names, serial

FILES = sorted(PRESETS.glob("*.yaml"))


@pytest.mark.parametrize("name", platform_names())
def test_every_platform_can_run_everything_and_is_joined(name: str):
    place = platform(name)
    assert place.name == name
    first = place.names[0]
    assert all(place.connected(first, d) and place.connected(d, first) for d in place.names)
    assert zoo.problem("resnet18", place).platform == place


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_file_says_where_its_figures_come_from(path):
    text = path.read_text(encoding="utf-8")
    assert Platform.load(path).name == path.stem
    assert re.match(r"# \w", text)
    assert (
        "source" in text
        or "data sheet" in text
        or "made-up" in text.lower()[:400]
        or ("round figures" in text)
    )


def test_a_cluster_has_copies_of_its_machines():
    place = cluster([("diviml", 2), ("t4x4", 1)], "ethernet-10")
    assert place.names == (
        "n0.cpu", "n0.v100", "n0.t4", "n1.cpu", "n1.v100", "n1.t4",
        "n2.cpu", "n2.gpu0", "n2.gpu1", "n2.gpu2", "n2.gpu3",
    )  # fmt: skip
    assert [device.node for device in place.devices] == 3 * ["n0"] + 3 * ["n1"] + 5 * ["n2"]
    original = platform("diviml")
    assert place.device("n1.v100").peak_flops == original.device("v100").peak_flops
    assert place.copy_seconds("n1.cpu", "n1.t4", 1e6) == original.copy_seconds("cpu", "t4", 1e6)
    wire = NETWORKS["ethernet-10"]
    assert place.copy_seconds("n0.t4", "n2.gpu3", 1e6) == pytest.approx(
        wire.latency + 1e6 / wire.bandwidth
    )


def test_gpus_that_share_nvlink_do_not_go_through_the_host():
    place = platform("h100x8")
    assert len(place.path("gpu0", "gpu7", 1e6)) == 1
    assert place.link("gpu0", "gpu7").bandwidth == 450e9  # type: ignore[union-attr]
    assert len(platform("l4x4").path("gpu0", "gpu3", 1e6)) == 2


def test_devices_of_large_clusters_sort_by_number():
    names = cluster([("diviml", 12)]).names
    assert names[0] == "n00.cpu"
    assert [n.split(".")[0] for n in names] == sorted(n.split(".")[0] for n in names)


def test_clusters_can_be_spelled():
    assert platform("diviml:6@ethernet-100").devices == platform("diviml-6").devices
    assert len(platform("h100x8:4+t4x4:2").devices) == 4 * 9 + 2 * 5
    assert platform("diviml:2@infiniband-hdr").copy_seconds("n0.cpu", "n1.cpu", 25e9) == (
        pytest.approx(1 + 5e-6)
    )


def test_serial_devices_do_not_copy_while_they_compute():
    place = platform("diviml-serial")
    assert place == serial(platform("diviml"))
    assert not any(device.overlap for device in place.devices)
    assert all(device.overlap for device in platform("diviml").devices)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("divimi", "did you mean 'diviml'"),
        ("diviml:0", "a cluster of 0 machines"),
        ("diviml:99999", "expected machines such as"),
        ("diviml:1000+phone:100", "a cluster of 1100 machines"),
        ("diviml:x", "expected machines such as"),
        ("diviml:2@token-ring", "network 'token-ring' is unknown"),
        ("../diviml", "unknown"),
        ("nothing-serial", "'nothing' is unknown"),
    ],
)
def test_what_is_unknown_is_refused(name: str, text: str):
    with pytest.raises(UsageError, match=text):
        platform(name)


def test_data_sheet_figures_are_in_proportion():
    """A unit error (bits for bytes, one for two directions) would show in these ratios."""
    h100, a100 = platform("h100x8").device("gpu0"), platform("a100x8").device("gpu0")
    assert h100.peak_flops and a100.peak_flops and h100.bandwidth and a100.bandwidth
    assert 3 < h100.peak_flops / a100.peak_flops < 4
    assert 1.5 < h100.bandwidth / a100.bandwidth < 1.8
    for name in ("h100x8", "a100x8", "l4x4", "t4x4", "diviml"):
        for device in platform(name).devices:
            assert device.watts and device.price and device.idle_watts < device.watts
            # Operations a byte: 10 to 101 for everything that is sold.
            assert device.peak_flops and device.bandwidth
            assert 9 < device.peak_flops / device.bandwidth < 110
