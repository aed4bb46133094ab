"""Prompts of a decoder: tokens read a second on one core and on two, beside llama.cpp.

    python -m benchmarks.prompts                     all, writes results/prompts.json
    python -m benchmarks.prompts --weights bfloat16,int4 --output FILE    rows beside those of FILE
    python -m benchmarks.prompts --small             seconds (the tests run it)

A model of the shape of GPT-2 small with random weights reads a prompt of 256 tokens, which goes in
by chunks of so many, until the logits of the last token are there. Ours is one device of one core
or of two; llama.cpp has as many threads, reads a file of the same weights in the same type
(`benchmarks.decoding.llama_cpp_peer`), and takes the prompt as one batch. Both run in turns. Where
it is not installed its columns are empty.

`apart` is by how much the logits of the two differ at most, as a share of the largest: they round
what weights meet differently (ours beside int8 and int4 to 16 bits, llama.cpp to 8), so with
float32 it says that both computed the same model, and with others how much rounding shows.

Goal: at least llama.cpp's pace with each type of weights, on one core and on two.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.decoding.llama_cpp_peer import LlamaCpp, is_installed, write_gguf
from benchmarks.decoding.model import MODELS, write_model
from benchmarks.documents import dated, write_document
from benchmarks.execution.argument_types import count, names_of, output_file
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import one_device
from benchmarks.result_rows import read_rows
from tvm_hetero.decoders.build import WEIGHTS, DecoderOptions, build_decoder
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.executor.relative_error import largest_relative_error

Logits = NDArray[np.float32]
# Seconds, and the logits of the last token.
Reading = tuple[float, Logits]
CORES = (1, 2)
# Of a device, where there is no choice to be made by them.
_FIGURES = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
_PAUSE = 0.05  # threads of others spin for a while


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long."""

    model: str = "gpt2-small"
    length: int = 1024
    tokens: int = 256
    chunk: int = 256
    rounds: int = 9


SMALL = Settings("tiny", 64, 48, 16, 1)


@dataclass(frozen=True)
class PromptRow:
    """One type of weights on so many cores: the least and the median seconds of a prompt.

    `peer` is the version of llama.cpp's Python package, none where it is not installed.
    """

    weights: str
    cores: int
    tokens: int
    chunk: int
    seconds: float
    median: float
    llama_seconds: float | None
    llama_median: float | None
    apart: float | None
    peer: str | None = None

    @property
    def ratio(self) -> float | None:
        """Our pace over llama.cpp's, by medians."""
        return None if self.llama_median is None else self.llama_median / self.median


def main(arguments: Sequence[str] | None = None) -> list[PromptRow]:
    """Measure, print and write; the rows."""
    args = _arguments(arguments)
    settings = SMALL if args.small else Settings(chunk=args.chunk)
    output = None if args.small else args.output
    if args.weights == tuple(WEIGHTS) and args.chunk == Settings.chunk and not args.small:
        output = output or RESULTS / "prompts.json"
    rows: list[PromptRow] = []
    print(_HEAD)
    with tempfile.TemporaryDirectory(prefix="tvm_hetero.prompts.") as temporary:
        folder = args.folder or Path(temporary)
        model = folder / settings.model
        if not model.exists():
            write_model(settings.model, model)
        for weights in args.weights[:1] if args.small else args.weights:
            for row in measure(settings, folder, model, weights):
                rows.append(row)
                print(_line(row), flush=True)
    if output is not None:
        asked = {"model": settings.model, "rounds": settings.rounds}
        others = [] if args.output is None else read_rows(output)
        new = {(row.weights, row.chunk) for row in rows}
        kept = [row for row in others if (row["weights"], row["chunk"]) not in new]
        documents = [*kept, *(dated(asdict(row)) for row in rows)]
        write_document(output, "python -m benchmarks.prompts", documents, **asked)
        print(f"written to {output}")
    return rows


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, one turn, no file")
    parser.add_argument("--weights", type=names_of(WEIGHTS), default=tuple(WEIGHTS))
    parser.add_argument("--chunk", type=count, default=Settings.chunk, help="tokens at once")
    parser.add_argument("--folder", type=Path, help="where what is built stays for the next run")
    parser.add_argument("--output", type=output_file, help="rows beside those of FILE")
    return parser.parse_args(arguments)


def measure(settings: Settings, folder: Path, model: Path, weights: str) -> list[PromptRow]:
    """The rows of one type of weights: all sides in turns."""
    words = MODELS[settings.model]["vocab_size"]
    prompt = np.random.default_rng(0).integers(0, words, settings.tokens, np.int32)
    with ExitStack() as stack:
        readers: dict[tuple[int, str], Callable[[], Reading]] = {}
        for cores in CORES:
            decoder = _decoder(settings, folder, model, weights, cores)
            stack.callback(decoder.close)
            readers[cores, "ours"] = partial(read_prompt, decoder, prompt)
            if is_installed():
                peer = _llama(settings, folder, model, weights, cores)
                stack.callback(peer.close)
                readers[cores, "llama.cpp"] = partial(peer.read, prompt)
        readings: dict[tuple[int, str], list[Reading]] = {key: [] for key in readers}
        for _ in range(settings.rounds + 1):
            for key, read in readers.items():
                time.sleep(_PAUSE)
                readings[key].append(read())
        version = peer.version if is_installed() else None
    # The first ones bring weights into memory.
    return [replace(_row(settings, weights, cores, readings), peer=version) for cores in CORES]


def _decoder(settings: Settings, folder: Path, model: Path, weights: str, cores: int) -> Decoder:
    """Build ours, unless it is there; nothing is measured, as one device leaves no choice."""
    place = folder / f"{settings.model}-{weights}-{cores}-{settings.chunk}.hetero"
    if not place.exists():
        options = DecoderOptions(length=settings.length, chunk=settings.chunk, weights=weights)
        device = replace(one_device(cores).devices[0], **_FIGURES)
        platform = replace(one_device(cores), devices=(device,))
        build_decoder(
            model, platform, place, options, solver="heft", cost_model="analytical", measure=False
        )
    return Decoder.load(place)


def _llama(settings: Settings, folder: Path, model: Path, weights: str, cores: int) -> LlamaCpp:
    file = folder / f"{settings.model}-{weights}.gguf"
    if not file.exists():
        write_gguf(model, weights, file)
    return LlamaCpp(file, cores, settings.length, settings.tokens)


def read_prompt(decoder: Decoder, prompt: NDArray[np.int32]) -> Reading:
    """A prompt into the first slot, chunk by chunk."""
    begin = time.perf_counter()
    for start in range(0, len(prompt), decoder.chunk):
        part = prompt[start : start + decoder.chunk].tolist()
        logits = decoder.prefill(0, 0, part, start).result()
    return time.perf_counter() - begin, logits


def _row(
    settings: Settings, weights: str, cores: int, readings: dict[tuple[int, str], list[Reading]]
) -> PromptRow:
    ours, peers = readings[cores, "ours"], readings.get((cores, "llama.cpp"), [])
    mine, theirs = ([seconds for seconds, _ in found[1:]] for found in (ours, peers))
    apart = largest_relative_error([peers[-1][1]], [ours[-1][1]]) if peers else None
    return PromptRow(
        weights, cores, settings.tokens, settings.chunk, min(mine), statistics.median(mine),
        min(theirs, default=None), statistics.median(theirs) if theirs else None, apart,
    )  # fmt: skip


_HEAD = (
    f"{'weights':<10}{'cores':>6}{'chunk':>6}{'tokens/s':>10}{'best':>8}{'llama.cpp':>11}{'best':>8}"
    f"{'ours/its':>10}{'apart':>9}"
)


def _line(row: PromptRow) -> str:
    """One row of the table, tokens a second by the median and at best."""
    times = (row.median, row.seconds, row.llama_median, row.llama_seconds)
    paces = ["-" if each is None else f"{row.tokens / each:.0f}" for each in times]
    own, best, peer, peer_best = paces
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    apart = "-" if row.apart is None else f"{row.apart:.1e}"
    return (
        f"{row.weights:<10}{row.cores:>6}{row.chunk:>6}{own:>10}{best:>8}{peer:>11}{peer_best:>8}"
        f"{ratio:>10}{apart:>9}"
    )


if __name__ == "__main__":
    main()
