from __future__ import annotations

import mmap
import resource
import sys
from pathlib import Path

import pytest

from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.registry import ENTRIES
from tvm_hetero.zoo.work_graph import HALF, Builder, LayerWork


def test_a_task_counts_what_it_reads_and_writes_in_bytes():
    net = Builder("net", HALF)
    x = net.input(3, 4, 4)
    y = net.add("conv", "conv", [x], (8, 4, 4), flops=100, weights=10)
    net.output(y)
    graph = net.build()
    first, conv, last = graph.works
    assert (first.kind, first.output) == ("input", 96)
    assert (conv.traffic, conv.weights, conv.output) == (96 + 256, 20, 256)
    assert (last.kind, last.output) == ("output", 0)
    assert [(e.src, e.dst, e.bytes) for e in graph.edges] == [
        ("input", "conv", 96), ("conv", "output", 256),
    ]  # fmt: skip
    assert (graph.flops, graph.parameters) == (100.0, 10)


def test_names_are_numbered_from_the_second_on():
    net = Builder("net")
    x = net.input(4)
    names = [net.add("add", "elementwise", [x], (4,)).src for _ in range(3)]
    assert names == ["add", "add_1", "add_2"]


def test_reading_one_tensor_twice_is_one_edge():
    net = Builder("net")
    x = net.input(4)
    net.add("square", "elementwise", [x, x], (4,))
    assert len(net.build().edges) == 1


def test_parts_of_a_tensor_are_tensors_of_one_maker():
    net = Builder("net")
    x = net.input(2, 3)
    a, b = net.parts(x, [(3,), (3,)])
    assert (a.src, b.src) == ("input", "input")
    assert a.tensor != b.tensor
    assert (a.bytes, b.bytes) == (12, 12)


def test_weights_are_read_once_and_random_shares_as_often_as_expected():
    whole = LayerWork("w", "w", "gemm", traffic=10, weights=1000, cache=5)
    assert [whole.memory_traffic(n) for n in (1, 4)] == [1015, 1060]
    chosen = LayerWork("w", "w", "gemm", weights=1000, share=0.25)
    assert chosen.weights_read(1) == pytest.approx(250)
    assert chosen.weights_read(2) == pytest.approx(1000 * (1 - 0.75**2))
    assert chosen.weights_read(200) == pytest.approx(1000)


def test_a_size_beyond_all_memory_is_refused(monkeypatch):
    monkeypatch.setattr(sys.modules[Builder.__module__], "MAX_TASKS", 1_000)
    with pytest.raises(UsageError, match="1000 tasks at most, got more"):
        zoo.work_graph("bert-base", layers=10**8)


_NUMBERS = {
    (entry.make, key): (name, key)
    for name, entry in ENTRIES.items()
    for key, default in entry.parameters.items()
    if isinstance(default, int | float) and key != "seed"
}


@pytest.mark.parametrize("name, key", _NUMBERS.values())
def test_no_number_of_the_zoo_takes_all_memory(monkeypatch, name, key):
    """A ring of 2^31 nodes was made before anybody counted them; nothing could interrupt it."""
    monkeypatch.setattr(sys.modules[Builder.__module__], "MAX_TASKS", 1_000)
    given = type(ENTRIES[name].parameters[key])
    with pytest.raises(UsageError, match=r"expected .* at most, got"):
        zoo.work_graph(name, **{key: given(2**31)})
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limit[1]))
    try:
        zoo.work_graph(name, **{key: given(10**9)})
    except UsageError as error:
        assert "expected" in str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
