"""What a segment costs beside its kernels: chains of empty ones, on our executor and its peers.

A chain runs on one worker, and in ping-pong between two (every tensor crosses to the other core,
the worst case there is). ``stream`` is our executor with requests in flight one behind the other,
and the chain cut into one part a worker: what a segment adds to the time between two requests,
divided by the segments that the busiest worker has of each.

Beside it, in the same run: Python threads that hand the tensor round through events, and TVM's own
virtual machine, which runs the chain as one function (of packed calls, or of the same kernel).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from benchmarks.execution.empty import (
    SHAPE,
    Figure,
    Nothing,
    chain,
    figure,
    identity,
    nothing,
    tensor,
)
from tvm_hetero.executor import native
from tvm_hetero.executor.streaming import steady_seconds

_STREAMED = 10  # requests that count in a stream


def segments(count: int, runs: int) -> list[Figure]:
    """The figures of all runners, for chains of `count` segments."""
    found: list[Figure] = []
    kinds: tuple[Nothing, ...] = ("call", "kernels")
    for kind in kinds:
        for workers in (1, 2):
            found.append(_one_by_one(kind, workers, count, runs))
            found.append(_in_a_stream(kind, workers, count, runs))
        found.append(_on_tvm_vm(kind, count, runs))
    found += [_on_python_threads(workers, count, max(3, runs // 10)) for workers in (1, 2)]
    return found


def _what(kind: Nothing) -> str:
    return {"call": "segment, foreign", "kernels": "segment, 1 kernel"}[kind]


def _one_by_one(kind: Nothing, workers: int, count: int, runs: int) -> Figure:
    executor = chain([i % workers for i in range(count)], kind)
    executor.run_repeated(5)
    seconds = executor.run_repeated(runs)
    return figure(_what(kind), "executor", workers, (each / count for each in seconds))


def _in_a_stream(kind: Nothing, workers: int, count: int, runs: int) -> Figure:
    busiest = -(-count // workers)
    executor = chain([i // busiest for i in range(count)], kind)
    executor.run_stream(5)
    seconds = [steady_seconds(executor, _STREAMED) for _ in range(max(3, runs // _STREAMED))]
    return figure(_what(kind), "stream", workers, (each / busiest for each in seconds))


def _on_python_threads(workers: int, count: int, runs: int) -> Figure:
    """An event a segment where it changes threads."""
    function, x = identity(), tensor()

    def once() -> float:
        tensors = [x] + [None] * count
        filled = [threading.Event() for _ in range(count + 1)]
        filled[0].set()

        def work(worker: int) -> None:
            for i in range(worker, count, workers):
                if workers > 1:
                    filled[i].wait()
                tensors[i + 1] = function(tensors[i])
                if workers > 1:
                    filled[i + 1].set()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    return figure(_what("call"), "Python threads", workers, (once() / count for _ in range(runs)))


def _on_tvm_vm(kind: Nothing, count: int, runs: int) -> Figure:
    native.load_library()  # has tvm_hetero.identity
    function, x = vm_function(relax_chain(kind, count)), tensor()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        function(x)
        seconds.append((time.perf_counter() - start) / count)
    return figure(_what(kind), "TVM's VM", 1, seconds)


def relax_chain(kind: Nothing, calls: int) -> tvm.IRModule:
    """A Relax function of `calls` calls, one after another."""
    builder = relax.BlockBuilder()
    kernel = builder.add_func(nothing(), "nothing") if kind == "kernels" else None
    type_ = relax.TensorType(SHAPE, "float32")
    x = relax.Var("x", type_)
    with builder.function("main", [x]):
        with builder.dataflow():
            y: Any = x
            for _ in range(calls):
                if kernel is None:
                    packed = relax.ExternFunc("tvm_hetero.identity")
                    call = relax.Call(packed, [y], None, ty_args=[type_])
                else:
                    call = relax.call_tir(kernel, [y], out_ty=type_)
                y = builder.emit(call)
            y = builder.emit_output(y)
        builder.emit_func_output(y)
    return builder.get()


def vm_function(module: tvm.IRModule) -> Callable[[Any], Any]:
    """``main`` of a module on TVM's virtual machine."""
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    function: Callable[[Any], Any] = relax.VirtualMachine(executable, tvm.cpu())["main"]
    return function
