"""Two models on the same cores, each with an objective: who is given which cores, what is refused.

Run it from the repository, after ``make setup``:

    .venv/bin/python tutorials/serve_two_models.py

It makes two small networks, a quick one and one that is some thirty times slower, and asks them as
any client would: over HTTP, with nothing but Python's own library and NumPy.
"""

from __future__ import annotations

import http.client
import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import tvm_hetero as th
from tvm_hetero import relay
from tvm_hetero.platform.host import available_cores

# Layers (3x3 convolutions of so many channels on squares of so many pixels a side), and how many
# clients ask for it, each for the next answer as soon as it has one.
MODELS = {"quick": (3, 64, 20, 1), "slow": (16, 192, 20, 12)}
_HEADERS = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
_PAUSE = 0.02  # seconds for which a client that was refused stays away


@dataclass
class Asked:
    """What became of a model's queries.

    Attributes
    ----------
    ends : how many were answered, or by which limit they were refused.
    seconds : of each that was answered, from the request to its answer.
    told : what the server said to one that was refused.
    """

    ends: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    told: str = ""


@dataclass
class Outcome:
    """What came of it: objectives (s), queries and core-seconds by model, and the exit status."""

    slo: dict[str, float]
    asked: dict[str, Asked]
    cores: dict[str, list[float]]
    status: int


def main(
    folder: Path = Path("demo"), seconds: float = 4.0, cost_model: str = "profiled"
) -> Outcome:
    """Tell the story, with so many seconds of load."""
    # ---------------------------------------------------------------- 1. two models
    # A model that is partitioned for teams of cores has kernels for each single core and for all of
    # them at once. So it can be served on any number, and that can change from query to query.
    cores = sorted(available_cores())[:2]
    platform = th.Platform.detect(cores=cores, teams="all")
    for name in MODELS:
        mod = relay.frontend.from_onnx(_network(name))
        mod = relay.transform.HeteroPartition(
            platform=platform, objective="latency", cost_model=cost_model
        )(mod)
        th.build(mod, adaptable=True).save(folder / f"{name}.hetero")
    print(f"1. two models for {', '.join(device.name for device in platform.devices)}")

    # ---------------------------------------------------------------- 2. objectives
    # The slow one may take eight times as long as it takes alone. The quick one takes next to
    # nothing: what it needs is not to wait behind all of the slow ones.
    alone = {name: _alone(folder / f"{name}.hetero") for name in MODELS}
    slo = {"quick": 3 * alone["slow"], "slow": 8 * alone["slow"]}
    for name in MODELS:
        print(f"2. {name}: {1e3 * alone[name]:.2f} ms alone, objective {1e3 * slo[name]:.2f} ms")

    # ---------------------------------------------------------------- 3. more than the cores can do
    # `tvm-hetero serve` is a process of its own. One client asks for the quick model, twelve
    # at once for the slow one: if all of them waited for each other, each would be late.
    with _served(folder, slo) as (server, port):
        asked = _together(port, seconds)
        print(f"3. {seconds:g} s of one client of quick and twelve of slow at once")
        cores_of = _core_seconds(port, len(cores))
        # ------------------------------------------------------------ 4. who had which cores
        _tell(slo, asked, cores_of)
        # ------------------------------------------------------------ 5. what was refused, and why
        # At the door, before anything was computed for it: by the times that were measured so far
        # it would have ended too late behind what was accepted before. Nobody has waited in vain.
        for name, each in asked.items():
            print(f"5. {name}: {each.told or 'nothing was refused'}")
        # ------------------------------------------------------------ 6. the end
        # The first SIGTERM drains: nothing new, what was accepted is answered, then it ends.
        server.send_signal(signal.SIGTERM)
        status = server.wait()
    print(f"6. the server has ended with status {status}")
    return Outcome(slo, asked, cores_of, status)


def _network(name: str) -> onnx.ModelProto:
    """Layers of convolutions with seeded weights."""
    layers, channels, side, _ = MODELS[name]
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(layers):
        values = rng.standard_normal((channels, channels, 3, 3), "float32") / (3 * channels)
        weights.append(onnx.numpy_helper.from_array(values, f"w{i}"))
        names = [f"x{i}", f"w{i}"]
        nodes += [helper.make_node("Conv", names, [f"c{i}"], pads=[1, 1, 1, 1]),
                  helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"])]  # fmt: skip
    shape = [1, channels, side, side]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape)
            for end in ("x0", f"x{layers}")]  # fmt: skip
    return helper.make_model(helper.make_graph(nodes, name, ends[:1], ends[1:], weights))


def _array(name: str) -> np.ndarray[Any, Any]:
    _, channels, side, _ = MODELS[name]
    return np.random.default_rng(1).standard_normal((1, channels, side, side), "float32")


def _alone(path: Path) -> float:
    """Seconds of a query, the middle of some."""
    with th.load(path) as ex:
        inputs = ex.random_inputs(seed=0)
        times = []
        for _ in range(21):
            begun = time.perf_counter()
            ex.run(inputs)
            times.append(time.perf_counter() - begun)
    return float(np.median(times))


@contextmanager
def _served(folder: Path, slo: Mapping[str, float]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The server, and the port that it has found for itself."""
    command = [sys.executable, "-m", "tvm_hetero", "serve", "--port", "0"]
    command += [str(folder / f"{name}.hetero") for name in MODELS]
    for name, each in slo.items():
        command += ["--slo", f"{name}={1e6 * each:.0f}us"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                print(f"   {line.rstrip()}")
                if line.startswith("ready on "):
                    yield server, int(line.split("/")[2].split(":")[1])
                    break
        finally:
            server.kill()


def _ask_all(port: int, name: str, clients: int, seconds: float) -> Asked:
    """What became of the queries of so many clients."""
    asked, end = Asked(), time.monotonic() + seconds
    threads = [threading.Thread(target=_ask, args=(port, name, end, asked)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked


def _together(port: int, seconds: float) -> dict[str, Asked]:
    """The same for all models at once."""
    found: dict[str, Asked] = {}

    def ask(name: str) -> None:
        found[name] = _ask_all(port, name, MODELS[name][3], seconds)

    threads = [threading.Thread(target=ask, args=(name,)) for name in MODELS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: found[name] for name in MODELS}


def _ask(port: int, name: str, end: float, asked: Asked) -> None:
    """One client: an array as NumPy saves it, on a connection that stays open."""
    body = io.BytesIO()
    np.save(body, _array(name))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while (begun := time.monotonic()) < end:
        connection.request("POST", f"/v2/models/{name}/infer", body.getvalue(), _HEADERS)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status == 200:
            asked.ends["answered"] += 1
            asked.seconds.append(time.monotonic() - begun)
            continue
        asked.ends[reply.headers["Tvm-Hetero-Reason"]] += 1
        asked.told = f"{reply.status}, Retry-After {reply.headers['Retry-After']}: {text.decode()}"
        time.sleep(_PAUSE)  # a client with manners stays away for as long as Retry-After says
    connection.close()


def _core_seconds(port: int, cores: int) -> dict[str, list[float]]:
    """Seconds of the last minute that each model had each core: what the server's page draws."""
    time.sleep(1.1)  # the page knows whole seconds
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/page/state.json")
    lanes = json.loads(connection.getresponse().read())["cores"][:cores]
    connection.close()
    return {
        name: [sum(second.get(name, 0.0) for second in lane["seconds"]) for lane in lanes]
        for name in MODELS
    }


def _tell(
    slo: Mapping[str, float], asked: Mapping[str, Asked], cores: Mapping[str, list[float]]
) -> None:
    """A table: a row for each model."""
    print("4. model  objective  answered  half within  in time  refused  seconds of each core")
    for name, each in asked.items():
        answered, times = each.ends["answered"], np.array(each.seconds or [np.nan])
        refused = each.ends.total() - answered
        print(f"   {name:5}  {1e3 * slo[name]:6.2f} ms  {answered:8}"
              f"  {1e3 * np.median(times):8.2f} ms  {np.mean(times <= slo[name]):7.0%}  {refused:7}"
              f"  {' '.join(f'{value:.2f}' for value in cores[name])}")  # fmt: skip


if __name__ == "__main__":
    main()
