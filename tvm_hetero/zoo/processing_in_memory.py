"""The home of figures of memories that compute, and servers that have them.

A part of `PARTS` has arithmetic units beside its banks: much bandwidth inside, little arithmetic
(about one operation a byte, so that a batch gains nothing from sharing weights), pins as every
memory has. What it computes with has to lie in its banks (its `memory`), what goes in and out takes
a link, and it does nothing else meanwhile: rows are open for the units or for the pins
(`overlap: false`). `work` is what is published that its units can do
(`tvm_hetero.platform.arithmetic_units`).

Figures that are nowhere published are usual values of ours and said to be so: how long it takes to
start a kernel there (as long as on the processor that starts it), latencies of copies. Watts of
these parts are not known, and left out.

The files of these servers in ``platforms/`` are made of this (`benchmarks/platform_files.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.platform.arithmetic_units import WORK_KINDS, Units
from tvm_hetero.platform.devices import Device, Link
from tvm_hetero.platform.model import Platform
from tvm_hetero.zoo.hardware import NVLINK, PCIE, machine, sources

_GB, _GIB = 10**9, 2**30


@dataclass(frozen=True)
class PimPart:
    """A memory that computes, the smallest part that is sold or described.

    Attributes
    ----------
    memory : bytes; peak_flops : of its units; bandwidth : bytes/s that these read of its banks.
    pins : bytes/s that others reach it with, in one direction.
    width : bytes of the numbers that it computes with; work : kinds of work, with shares of the
        peak.
    source : documents, and which figure is from where.
    """

    memory: int
    peak_flops: float
    bandwidth: float
    pins: float
    width: int
    work: Mapping[str, float]
    source: str


PARTS: dict[str, PimPart] = {
    "aquabolt-xl": PimPart(
        6 * _GB, 1.2288e12, 1228.8e9, 307.2e9, 2, {"product": 1.0},
        "a cube of Samsung HBM-PIM (Aquabolt-XL): 1.2 TFLOP/s in 16 bits and 1.229 TB/s inside, "
        "four times its pins (S. Lee et al., ISCA 2021, as quoted by C. Li et al., H2-LLM, ISCA "
        "2025, Table 2: 9.6 GFLOP/s a unit, so 128 units); 6 GB (Maximum PC, April 2021); units "
        "ADD, MUL, MAC, MAD and ReLU in 16 bits (github.com/SAITPublic/PIMSimulator): products, "
        "neither softmax nor norms",
    ),
    "gddr6-aim": PimPart(
        _GIB // 2, 512e9, 512e9, 32e9, 2, {"product": 1.0, "elementwise": 1.0},
        "a channel of SK hynix GDDR6-AiM: 512 GFLOP/s in bfloat16 and 512 GB/s inside, 16 times "
        "its pins (H2-LLM, ISCA 2025, Table 2: 32 GFLOP/s a unit; units at 1 GHz and 512 GB/s: "
        "Hot Chips 35, 2023, as reported by ServeTheHome); two channels a chip of 8 Gbit, with "
        "activation functions (S. Lee et al., ISSCC 2022, by its title: 8 Gb, 1 TFLOPS of MAC "
        "operations and various activation functions): products and functions of single numbers, "
        "no rows of tables",
    ),
    "upmem-rank": PimPart(
        64 * 2**26, 64 * 2 * 1.91e6, 64 * 0.7e9, 6.68e9, 4, dict.fromkeys(WORK_KINDS, 1.0),
        "a rank of UPMEM, 64 DPUs at 350 MHz, 64 MiB each (J. Gomez-Luna et al., PrIM, arXiv "
        "2105.03814, 2021): half a cycle a byte of its memory, 700 MB/s; floats are emulated, "
        "1.91 million multiplications of 32 bits a second a DPU, here taken for multiply-adds, "
        "which is more than it can; 6.68 GB/s from the processor to a rank, taken both ways",
    ),
    "attacc-hbm3": PimPart(
        16 * _GIB, 9 * 670.4e9, 9 * 670.4e9, 670.4e9, 2, {"attention": 1.0, "product": 1.0},
        "a stack of AttAcc (J. Park et al., ASPLOS 2024, doi:10.1145/3620665.3640422), which is "
        "simulated and not sold: HBM3 of 16 GiB and 670.4 GB/s with units at each bank, 9 times "
        "that inside under its power limit, one operation a byte, softmax at the buffer die "
        "(src/config.py of github.com/scale-snu/attacc_simulator)",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PimServer:
    """A server of `SERVERS` with some of its devices, and one memory that computes.

    Attributes
    ----------
    what : the first line of its file; base, devices : the server, and which of its devices.
    part, count : the memory, so many parts that act as one.
    at : the device that reaches it, by `bandwidth` (bytes/s, one direction) and `latency` (s).
    gang : GPUs that act as one device, each layer divided among all (tensor parallelism).
    gpu_bandwidth, gpu_memory : of one GPU, where other than the server's.
    """

    what: str
    base: str
    devices: tuple[str, ...]
    part: str
    count: int
    at: str
    bandwidth: float
    latency: float
    notes: tuple[str, ...] = ()
    gang: int = 1
    gpu_bandwidth: float | None = None
    gpu_memory: int | None = None


PIM_SERVERS: dict[str, PimServer] = {
    "hbm-pim": PimServer(
        "An A100 with four cubes of Samsung HBM-PIM beside its own memory: as many as the "
        "stacks of an AMD MI100, on which Samsung has tried them.",
        "a100x8", ("cpu", "gpu0"), "aquabolt-xl", 4, "gpu0", 4 * 307.2e9, 1e-6,
        ("The GPU reaches the cubes by their own pins, 307.2 GB/s each; 1 us to change their mode "
         "and back is a value of ours.",),
    ),
    "aim": PimServer(
        "An A100 and a card with 32 GB of SK hynix GDDR6-AiM (AiMX), 32 chips.",
        "a100x8", ("cpu", "gpu0"), "gddr6-aim", 64, "cpu", PCIE[4].bandwidth, PCIE[4].latency,
        ("SK hynix's card has FPGAs as its controller; its capacity and PCIe 4 are as remembered, "
         "not seen in a document. What the controller computes is not published, so that softmax "
         "and norms are left to processor and GPU.",),
    ),
    "upmem": PimServer(
        "Two Xeon sockets with 20 UPMEM modules: 40 ranks, 2,560 DPUs (of PrIM's server four are "
        "faulty).",
        "xeon-x2", ("cpu",), "upmem-rank", 40, "cpu", 6.68e9, 10e-6,
        ("Copies to several ranks at once are taken to be no faster than to one.",),
    ),
    "attacc": PimServer(
        "The system of AttAcc: a DGX A100 whose eight GPUs have 80 GiB of HBM3 each, and eight "
        "devices of five stacks that compute.",
        "a100x8", ("cpu", "gpu0"), "attacc-hbm3", 40, "gpu0", 8 * NVLINK[3].bandwidth, 3e-6,
        ("Eight GPUs are one device, and so are the 40 stacks: each layer is divided among all "
         "(tensor parallelism), without what its reductions take. GPUs: 3352 GB/s and 80 GiB "
         "each (src/config.py of AttAcc's simulator).",),
        gang=8, gpu_bandwidth=3352e9, gpu_memory=80 * _GIB,
    ),
}  # fmt: skip


def pim_machine(name: str) -> Platform:
    """The server of that name (one of `PIM_SERVERS`) as a platform of one node."""
    return build_server(PIM_SERVERS[name], name)


def build_server(server: PimServer, name: str) -> Platform:
    """A server as a platform of one node; the memory that computes is called ``pim``."""
    base = machine(server.base)
    kept = [_gang(base.device(device), server) for device in server.devices]
    links = [
        replace(link, bandwidth=server.gang * link.bandwidth)
        for link in base.links
        if {link.src, link.dst} <= set(server.devices)
    ]
    ends = (server.at, "pim"), ("pim", server.at)
    links += [Link(*pair, server.bandwidth, server.latency) for pair in ends]
    memory = pim_device(server.part, server.count, base.device(server.at))
    return Platform((*kept, memory), tuple(links), name=name)


def pim_device(part: str, count: int, starter: Device, name: str = "pim") -> Device:
    """So many parts (of `PARTS`) as one device, whose kernels `starter` starts."""
    one = PARTS[part]
    return Device(
        name,
        memory=count * one.memory,
        peak_flops=count * one.peak_flops,
        bandwidth=count * one.bandwidth,
        launch=starter.launch,
        units=Units(one.width, one.work),
    )


def pim_sources(name: str) -> Sequence[str]:
    """Where the figures of such a server come from, a line each, as its file says."""
    server = PIM_SERVERS[name]
    count = f"{server.count} times " if server.count > 1 else ""
    unused = () if server.gang > 1 else ("NVLink",)
    lines = [line for line in sources(server.base) if not line.startswith(unused)]
    return [*lines, f"pim: {count}{PARTS[server.part].source}.", *server.notes]


def _gang(device: Device, server: PimServer) -> Device:
    """A device as it is there: of GPUs as many as act as one."""
    if device.name != "gpu0":
        return device
    count, memory = server.gang, server.gpu_memory or device.memory
    return replace(
        device,
        memory=None if memory is None else count * memory,
        peak_flops=count * (device.peak_flops or 0.0),
        bandwidth=count * (server.gpu_bandwidth or device.bandwidth or 0.0),
        watts=count * (device.watts or 0.0),
        idle_watts=count * device.idle_watts,
        price=None if device.price is None else count * device.price,
    )
