"""The one home of hardware figures: GPUs, processors, what joins them, and servers made of them.

Peaks are those of 32-bit numbers outside of matrix units; `half` is the dense 16-bit rate of matrix
units over that. Data sheets give NVLink for both directions together and PCIe a direction; here
every rate is bytes a second in ONE direction. What copies reach of PCIe, launch and copy latencies
and idle power are usual values, not from data sheets. Prices are dollars an hour.

The files ``platforms/*.yaml`` of real machines are made of this (`benchmarks/platform_files.py`),
and the shares of costs (`tvm_hetero.zoo.costs`) take the 16-bit rates from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_hetero.platform.devices import Device, Fabric, Link
from tvm_hetero.platform.model import Platform

_GB, _GIB, _TB = 10**9, 2**30, 10**12


@dataclass(frozen=True)
class GpuFigures:
    """A GPU: TVM's architecture, memory (bytes), figures, and the document that gives them."""

    arch: str
    memory: int
    peak_flops: float
    half_flops: float
    bandwidth: float
    watts: float
    idle_watts: float
    launch: float
    source: str

    @property
    def half(self) -> float:
        """How much faster matrix units are with 16-bit numbers."""
        return self.half_flops / self.peak_flops


GPUS: dict[str, GpuFigures] = {
    "h100-sxm": GpuFigures(
        "sm_90", 80 * _GB, 67e12, 989e12, 3350e9, 700, 70, 5e-6,
        "NVIDIA H100 Tensor Core GPU data sheet, 2023 (67 TFLOP/s in 32 bits, 989 dense in 16 "
        "with tensor cores, 80 GB, 3.35 TB/s, 700 W)",
    ),
    "h100-pcie": GpuFigures(
        "sm_90", 80 * _GB, 51e12, 756e12, 2000e9, 350, 50, 5e-6,
        "NVIDIA H100 PCIe GPU product brief PB-11133-001, November 2022 (80 GB, 2.0 TB/s, 350 W); "
        "NVIDIA H100 data sheet, 2023 (51 TFLOP/s in 32 bits, 756 dense in 16)",
    ),
    "h200-sxm": GpuFigures(
        "sm_90", 141 * _GB, 67e12, 989e12, 4800e9, 700, 70, 5e-6,
        "NVIDIA H200 Tensor Core GPU data sheet, November 2023 (67 TFLOP/s in 32 bits, 989 dense "
        "in 16, 141 GB, 4.8 TB/s, 700 W)",
    ),
    "a100-sxm-80": GpuFigures(
        "sm_80", 80 * _GB, 19.5e12, 312e12, 2039e9, 400, 55, 6e-6,
        "NVIDIA A100 Tensor Core GPU data sheet, June 2021 (19.5 TFLOP/s in 32 bits, 312 dense in "
        "16 with tensor cores, 80 GB, 2039 GB/s, 400 W)",
    ),
    "a100-sxm-40": GpuFigures(
        "sm_80", 40 * _GB, 19.5e12, 312e12, 1555e9, 400, 55, 6e-6,
        "NVIDIA A100 Tensor Core GPU Architecture, white paper, 2020 (19.5 TFLOP/s in 32 bits, "
        "312 dense in 16, 40 GB, 1555 GB/s, 400 W)",
    ),
    "l4": GpuFigures(
        "sm_89", 24 * _GB, 30.3e12, 121e12, 300e9, 72, 16, 6e-6,
        "NVIDIA L4 Tensor Core GPU data sheet, 2023 (30.3 TFLOP/s in 32 bits, 121 dense in 16 "
        "with tensor cores, 24 GB, 300 GB/s, 72 W)",
    ),
    "t4": GpuFigures(
        "sm_75", 16 * _GB, 8.1e12, 65e12, 320e9, 70, 10, 8e-6,
        "NVIDIA T4 data sheet, 2019 (8.1 TFLOP/s in 32 bits, 65 in 16 with tensor cores, 16 GB, "
        "320 GB/s, 70 W)",
    ),
    "v100-sxm2": GpuFigures(
        "sm_70", 16 * _GB, 15.7e12, 125e12, 900e9, 300, 30, 8e-6,
        "NVIDIA V100 data sheet, January 2020 (15.7 TFLOP/s in 32 bits, 125 with tensor cores, "
        "16 GB, 900 GB/s, 300 W)",
    ),
    "v100-pcie": GpuFigures(
        "sm_70", 16 * _GIB, 14e12, 112e12, 900e9, 250, 25, 8e-6,
        "NVIDIA V100 data sheet, January 2020 (14 TFLOP/s in 32 bits, 112 with tensor cores, "
        "16 GB, 900 GB/s, 250 W)",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """The processors of a server as one device: `cores` x `flops_per_cycle` x `hertz` is the peak.

    `peak_flops` and `bandwidth` are rounded as they are written into files.
    """

    mcpu: str
    memory: int
    cores: int
    flops_per_cycle: int
    hertz: float
    peak_flops: float
    bandwidth: float
    watts: float
    idle_watts: float
    source: str
    half: float = 1.0
    launch: float = 2e-6


HOSTS: dict[str, Host] = {
    "xeon-8480c-x2": Host(
        "sapphirerapids", 2 * _TB, 112, 64, 2.0e9, 14.3e12, 614e9, 700, 200,
        "2 Xeon Platinum 8480C (56 cores, 8 channels DDR5-4800 = 307 GB/s and 350 W each; Intel "
        "ARK, Q1 2023); peak: 112 cores x 64 flop/cycle (2 AVX-512 FMA units) x 2.0 GHz; 2 TB "
        "(NVIDIA DGX H100 data sheet, 2022)",
        half=8.0,
    ),
    "xeon-8380-x2": Host(
        "icelake-server", 1 * _TB, 80, 64, 2.3e9, 11.8e12, 410e9, 540, 160,
        "2 Xeon Platinum 8380 (40 cores, 8 channels DDR4-3200 = 205 GB/s and 270 W each; Intel "
        "ARK, Q2 2021); peak: 80 cores x 64 flop/cycle (2 AVX-512 FMA units) x 2.3 GHz",
    ),
    "epyc-9654-x2": Host(
        "znver4", 1536 * _GB, 192, 32, 2.4e9, 14.7e12, 922e9, 720, 200,
        "2 EPYC 9654 (96 cores, 12 channels DDR5-4800 = 461 GB/s and 360 W each; AMD EPYC 9004 "
        "series data sheet, November 2022); peak: 192 cores x 32 flop/cycle (Zen 4: 2 FMA units "
        "of 256 bits) x 2.4 GHz",
    ),
    "epyc-7742-x2": Host(
        "znver2", 2 * _TB, 128, 32, 2.25e9, 9.2e12, 410e9, 450, 150,
        "2 EPYC 7742 (64 cores, 8 channels DDR4-3200 = 205 GB/s and 225 W each; AMD EPYC 7002 "
        "series data sheet, 2019); peak: 128 cores x 32 flop/cycle (2 AVX2 FMA units) x 2.25 GHz; "
        "2 TB (NVIDIA DGX A100 data sheet, 2021)",
    ),
    "epyc-7r13-half": Host(
        "znver3", 192 * _GIB, 24, 32, 2.65e9, 2.0e12, 102e9, 140, 50,
        "24 cores of an EPYC 7R13 (Zen 3; AWS g6.12xlarge); peak: 24 cores x 32 flop/cycle (2 AVX2 "
        "FMA units) x 2.65 GHz; half of 8 channels DDR4-3200 = 102 GB/s; half of the part's 280 W",
    ),
    "xeon-8259cl": Host(
        "cascadelake", 192 * _GIB, 24, 64, 2.5e9, 3.8e12, 141e9, 210, 60,
        "24 cores of a Xeon Platinum 8259CL (AWS g4dn.12xlarge); peak: 24 cores x 64 flop/cycle (2 "
        "AVX-512 FMA units) x 2.5 GHz; 6 channels DDR4-2933 = 141 GB/s; 210 W",
    ),
    "xeon-6130": Host(
        "skylake-avx512", 64 * _GIB, 16, 64, 1.9e9, 1.95e12, 128e9, 125, 30,
        "Xeon Gold 6130 (Intel ARK 120492, Q3 2017: 16 cores, 6 channels DDR4-2666 = 128 GB/s, "
        "125 W); peak: 16 cores x 64 flop/cycle (2 AVX-512 FMA units) x 1.9 GHz (all-core AVX-512 "
        "turbo)",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Wire:
    """What joins two places: bytes/s in one direction that copies reach, latency, line rate."""

    bandwidth: float
    latency: float
    line: float
    source: str


# PCI Express x16 by generation: 8, 16 and 32 GT/s a lane with 128 of 130 bits of payload.
PCIE: dict[int, Wire] = {
    3: Wire(12e9, 10e-6, 15.75e9, "PCIe 3.0 x16 (PCI-SIG, 2010): 15.75 GB/s a direction"),
    4: Wire(25e9, 8e-6, 31.5e9, "PCIe 4.0 x16 (PCI-SIG, 2017): 31.5 GB/s a direction"),
    5: Wire(50e9, 8e-6, 63e9, "PCIe 5.0 x16 (PCI-SIG, 2019): 63 GB/s a direction"),
}
# All NVLink lanes of a GPU by generation, through a switch where there is one.
NVLINK: dict[int, Wire] = {
    1: Wire(80e9, 3e-6, 80e9, "NVLink 1 (NVIDIA Tesla P100 white paper, 2016): 160 GB/s a GPU"),
    2: Wire(150e9, 3e-6, 150e9, "NVLink 2 (NVIDIA Tesla V100 white paper, 2017): 300 GB/s a GPU"),
    3: Wire(300e9, 3e-6, 300e9, "NVLink 3 (NVIDIA A100 white paper, 2020): 600 GB/s a GPU"),
    4: Wire(450e9, 3e-6, 450e9, "NVLink 4 (NVIDIA H100 white paper, 2022): 900 GB/s a GPU"),
    5: Wire(900e9, 3e-6, 900e9, "NVLink 5 (NVIDIA Blackwell brief, 2024): 1800 GB/s a GPU"),
}
# Between machines: line rates; latencies through TCP about 50 and 20 us, RDMA about 2 us and with
# the launch of the copy 5 us.
NETWORKS: dict[str, Wire] = {
    "ethernet-10": Wire(1.25e9, 50e-6, 1.25e9, "10 Gb/s Ethernet (IEEE 802.3ae, 2002)"),
    "ethernet-25": Wire(3.125e9, 30e-6, 3.125e9, "25 Gb/s Ethernet (IEEE 802.3by, 2016)"),
    "ethernet-100": Wire(12.5e9, 20e-6, 12.5e9, "100 Gb/s Ethernet (IEEE 802.3ba, 2010)"),
    "infiniband-hdr": Wire(25e9, 5e-6, 25e9, "InfiniBand HDR, 4 lanes: 200 Gb/s (IBTA, 2018)"),
    "infiniband-ndr": Wire(50e9, 5e-6, 50e9, "InfiniBand NDR, 4 lanes: 400 Gb/s (IBTA, 2021)"),
}


@dataclass(frozen=True)
class Slot:
    """A GPU of a server, by its name there; `memory` and `price` where the server's differ."""

    name: str
    gpu: str
    memory: int | None = None
    price: float | None = None


@dataclass(frozen=True)
class Server:
    """A machine: its processors, its GPUs, and what joins them.

    Attributes
    ----------
    what : the first line of its file.
    nvlink : generation that joins every two GPUs; `nvlink_share` is the part of a GPU's lanes that
        leads to one other (1 through a switch).
    pcie, pcie_latency : generation, and a latency where it is not the usual one.
    notes : more lines for the file.
    """

    what: str
    host: str
    slots: tuple[Slot, ...] = ()
    pcie: int = 4
    pcie_latency: float | None = None
    nvlink: int | None = None
    nvlink_share: float = 1.0
    price: float | None = None
    notes: tuple[str, ...] = ()


def _row(gpu: str, count: int, price: float | None = None) -> tuple[Slot, ...]:
    return tuple(Slot(f"gpu{i}", gpu, price=price) for i in range(count))


def _aws(machine: str, price: str) -> str:
    return (
        f"Prices are dollars an hour, on demand in us-east-1 in 2024, of AWS {machine} ({price}): "
        "the processor's part is that of a general-purpose machine with as many cores, the rest is "
        "divided among the GPUs."
    )


_APART = "GPUs meet in host memory."

SERVERS: dict[str, Server] = {
    "diviml": Server(
        "A server with a processor and two unlike GPUs: the system of DiviML (Y. Ghannane, M. "
        'Abdelfattah, arXiv 2308.00127). The paper\'s abstract says no more than "a CPU and two '
        'distinct GPUs"; its own figures were not at hand, so these are data-sheet figures of '
        "parts that fit the description.",
        "xeon-6130",
        (Slot("v100", "v100-pcie", price=2.68), Slot("t4", "t4", 16 * _GIB, 0.33)),
        pcie=3,
        price=0.38,
        notes=(
            _APART,
            "Prices: on-demand by the hour of AWS p3.2xlarge (3.06) and g4dn.xlarge (0.526), less "
            "that of an m5 of equal size.",
        ),
    ),
    "h100x8": Server(
        "A server with eight H100 SXM, as the DGX H100.",
        "xeon-8480c-x2", _row("h100-sxm", 8, 11.25), pcie=5, nvlink=4, price=8.3,
        notes=(_aws("p5.48xlarge", "98.32"),),
    ),
    "h200x8": Server(
        "A server with eight H200 SXM, as the DGX H200.",
        "xeon-8480c-x2", _row("h200-sxm", 8), pcie=5, nvlink=4,
    ),
    "h100-pcie-x4": Server(
        "A server with four H100 PCIe, without NVLink bridges.",
        "epyc-9654-x2", _row("h100-pcie", 4), pcie=5, notes=(_APART,),
    ),
    "a100x8": Server(
        "A server with eight A100 SXM 80 GB, as the DGX A100.",
        "epyc-7742-x2", _row("a100-sxm-80", 8, 4.54), pcie=4, nvlink=3, price=4.61,
        notes=(_aws("p4de.24xlarge", "40.97"),),
    ),
    "a100-40x8": Server(
        "A server with eight A100 SXM 40 GB.",
        "epyc-7742-x2", _row("a100-sxm-40", 8), pcie=4, nvlink=3,
    ),
    "v100x4": Server(
        "A server with four V100 SXM2: two of a GPU's six lanes lead to each of the others.",
        "xeon-8380-x2", _row("v100-sxm2", 4), pcie=3, nvlink=2, nvlink_share=1 / 3,
    ),
    "l4x4": Server(
        "A server with four L4, as AWS g6.12xlarge.",
        "epyc-7r13-half", _row("l4", 4, 0.57), pcie=4, pcie_latency=10e-6, price=2.3,
        notes=(_APART, _aws("g6.12xlarge", "4.60")),
    ),
    "t4x4": Server(
        "A server with four T4, as AWS g4dn.12xlarge.",
        "xeon-8259cl", _row("t4", 4, 0.4), pcie=3, price=2.3,
        notes=(_APART, _aws("g4dn.12xlarge", "3.91")),
    ),
    "xeon-x2": Server("A server with two Xeon sockets and no GPU.", "xeon-8480c-x2"),
    "epyc-x2": Server("A server with two EPYC sockets and no GPU.", "epyc-9654-x2"),
}  # fmt: skip


def machine(name: str) -> Platform:
    """The server of that name (one of `SERVERS`) as a platform of one node."""
    server = SERVERS[name]
    gpus = [(slot, GPUS[slot.gpu]) for slot in server.slots]
    fabrics: tuple[Fabric, ...] = ()
    if server.nvlink is not None:
        wire = NVLINK[server.nvlink]
        fabrics = (Fabric("node0", server.nvlink_share * wire.bandwidth, wire.latency),)
    return Platform(
        devices=(_host(HOSTS[server.host], server.price), *(_gpu(*pair) for pair in gpus)),
        links=tuple(_pcie(server)),
        fabrics=fabrics,
        name=name,
    )


def _host(host: Host, price: float | None) -> Device:
    return Device(
        "cpu",
        target={"kind": "llvm", "mcpu": host.mcpu},
        memory=host.memory,
        overlap=True,
        peak_flops=host.peak_flops,
        bandwidth=host.bandwidth,
        launch=host.launch,
        watts=host.watts,
        idle_watts=host.idle_watts,
        price=price,
    )


def _gpu(slot: Slot, gpu: GpuFigures) -> Device:
    return Device(
        slot.name,
        target={"kind": "cuda", "arch": gpu.arch},
        memory=slot.memory or gpu.memory,
        overlap=True,
        peak_flops=gpu.peak_flops,
        bandwidth=gpu.bandwidth,
        launch=gpu.launch,
        watts=gpu.watts,
        idle_watts=gpu.idle_watts,
        price=slot.price,
    )


def _pcie(server: Server) -> list[Link]:
    wire = PCIE[server.pcie]
    latency = wire.latency if server.pcie_latency is None else server.pcie_latency
    return [
        Link(src, dst, wire.bandwidth, latency)
        for slot in server.slots
        for src, dst in (("cpu", slot.name), (slot.name, "cpu"))
    ]


def sources(name: str) -> Sequence[str]:
    """Where the figures of a server come from, a line each, as its file says."""
    server = SERVERS[name]
    host = HOSTS[server.host]
    gpus = dict.fromkeys(slot.gpu for slot in server.slots)
    lines = [f"Processors: {host.source}.", *(f"{gpu}: {GPUS[gpu].source}." for gpu in gpus)]
    if server.nvlink is not None:
        lines.append(f"{NVLINK[server.nvlink].source}, in both directions together.")
    if server.slots:
        wire = PCIE[server.pcie]
        lines.append(f"{wire.source}, of which copies reach about {wire.bandwidth / 1e9:g}.")
    lines.append("Launch and copy latencies and idle power are usual values, not from data sheets.")
    return [*lines, *server.notes]


def half_rates() -> Mapping[str, float]:
    """How much faster matrix units are in 16 bits than `peak_flops`, by TVM's arch or mcpu."""
    rates = {gpu.arch: gpu.half for gpu in reversed(GPUS.values())}
    return rates | {host.mcpu: host.half for host in HOSTS.values() if host.half != 1.0}
