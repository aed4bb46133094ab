"""Read the text in a stream of pictures, on two unlike kinds of devices at once.

    pip install . && python examples/stream_ocr/read_stream.py    # in a checkout
    python read_stream.py --frames 600 --detector DET.onnx --recognizer REC.onnx

Two networks, one behind the other: the first one finds lines, the second one reads each. Both are
partitioned for throughput over a core as it is and a core with code for an older processor, so that
several pictures and lines are under way at once. Without files, those of the package
rapidocr-onnxruntime are taken, which pip downloads (15 MB).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import zipfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from frames import HEIGHT, WIDTH, Picture, camera
from text_lines import LINE_HEIGHT, LINE_WIDTH, detector_input, find_lines, read_letters

import tvm_hetero as th
from tvm_hetero import relax

PACKAGE = "rapidocr-onnxruntime==1.4.4"
FILES = ("ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tvm_hetero_stream_ocr"
OLDER = "x86-64-v2"


@dataclass(frozen=True)
class Reading:
    """What was read: lines of each picture, pictures a second, and how many were read right."""

    lines: list[list[str]]
    rate: float
    right: int


def main(arguments: Sequence[str] | None = None) -> Reading:
    """Build both networks, read a stream, and say what was read and how quickly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--detector", type=Path, help="an ONNX file; input (1, 3, H, W)")
    parser.add_argument("--recognizer", type=Path, help="an ONNX file; input (1, 3, 48, W)")
    parser.add_argument("--frames", type=int, default=300, help="pictures to read")
    parser.add_argument("--cost-model", default="profiled", help="'quick' measures less")
    args = parser.parse_args(arguments)
    files = (args.detector, args.recognizer)
    detector, recognizer = fetch() if None in files else files
    platform = two_kinds()
    for device in platform.devices:
        print(f"device {device.name}: cores {list(device.cores)}, {dict(device.target or {})}")
    with (
        make(detector, (1, 3, HEIGHT, WIDTH), platform, args.cost_model) as finder,
        make(recognizer, (1, 3, LINE_HEIGHT, LINE_WIDTH), platform, args.cost_model) as reader,
    ):
        return read(finder, reader, letters_of(recognizer), camera(args.frames))


def fetch() -> tuple[Path, Path]:
    """The two files of the package, from where it was unpacked, or by pip."""
    found = [CACHE / name for name in FILES]
    if not all(path.exists() for path in found):
        CACHE.mkdir(parents=True, exist_ok=True)
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            CACHE,
        ]
        subprocess.run([*download, PACKAGE], check=True)
        (wheel,) = CACHE.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for path in found:
                path.write_bytes(packed.read(f"rapidocr_onnxruntime/models/{path.name}"))
        wheel.unlink()
    return found[0], found[1]


def two_kinds() -> th.Platform:
    """A core as it is, and another one with code for an older processor."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two kinds of devices need two cores; this process may use one")
    return th.Platform.detect(2, [None, OLDER], cores=cores)


def make(file: Path, shape: tuple[int, ...], platform: th.Platform, costs: str) -> th.Executor:
    """A network for pictures of one size, partitioned for throughput and loaded."""
    began = time.perf_counter()
    name = onnx.load(file, load_external_data=False).graph.input[0].name
    mod = relax.frontend.from_onnx(file, shapes={name: shape})
    mod = relax.transform.HeteroPartition(
        platform=platform, objective="throughput", cost_model=costs
    )(mod)
    executor = th.Executor(th.build(mod))
    work = Counter[str]()
    for each in executor.schedule.executions:
        work[each.device] += each.end - each.start
    shares = ", ".join(f"{1e3 * seconds:.2f} ms on {device}" for device, seconds in work.items())
    print(f"{file.name}: built in {time.perf_counter() - began:.0f} s; for each, {shares}")
    return executor


def letters_of(file: Path) -> list[str]:
    """What the recognizer's letters are: the file says it; a blank is the last one."""
    kept = {each.key: each.value for each in onnx.load(file).metadata_props}
    return [*kept["character"].splitlines(), " "]


def read(
    finder: th.Executor,
    reader: th.Executor,
    letters: Sequence[str],
    stream: Iterable[tuple[tuple[str, ...], Picture]],
) -> Reading:
    """Read a stream and print each sign as it comes; texts are compared without blanks."""
    lines: list[list[str]] = []
    expected: list[tuple[str, ...]] = []
    began = time.perf_counter()
    for shown, found in texts(finder, reader, letters, stream):
        if not lines or found != lines[-1]:
            print(f"picture {len(lines)}: {' | '.join(found)}")
        lines.append(found)
        expected.append(shown)
    rate = len(lines) / (time.perf_counter() - began)
    right = sum(
        [text.replace(" ", "") for text in shown] == [text.replace(" ", "") for text in found]
        for shown, found in zip(expected, lines, strict=True)
    )
    print(f"{len(lines)} pictures, {rate:.1f} a second; {right} read as they were written")
    return Reading(lines, rate, right)


def texts(
    finder: th.Executor,
    reader: th.Executor,
    letters: Sequence[str],
    stream: Iterable[tuple[tuple[str, ...], Picture]],
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each picture's true and read lines, in order.

    Two streams, one inside the other: whoever asks for the next text lets lines go into the reader
    until it is full, which lets pictures go into the finder until that is full.
    """
    seen: deque[tuple[tuple[str, ...], Picture]] = deque()
    open_pictures: deque[tuple[tuple[str, ...], int, list[str]]] = deque()

    def pictures() -> Iterator[Mapping[str, Any]]:
        for shown, picture in stream:
            seen.append((shown, picture))
            yield {finder.inputs[0].name: detector_input(picture)}

    def lines() -> Iterator[Mapping[str, Any]]:
        for outputs in finder.map(pictures()):
            shown, picture = seen.popleft()
            found = find_lines(picture, np.from_dlpack(outputs[0])[0, 0])
            open_pictures.append((shown, len(found), []))
            yield from ({reader.inputs[0].name: line} for line in found)

    for outputs in reader.map(lines()):
        while not open_pictures[0][1]:  # nothing was found on it
            yield open_pictures[0][0], open_pictures.popleft()[2]
        shown, count, done = open_pictures[0]
        done.append(read_letters(outputs[0].numpy(), letters))
        if len(done) == count:
            open_pictures.popleft()
            yield shown, done
    while open_pictures:
        shown, _, done = open_pictures.popleft()
        yield shown, done


if __name__ == "__main__":
    main()
