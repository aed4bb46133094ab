"""Decode a small GPT on two unlike cores.

Run it from the repository, after ``make setup``:

    .venv/bin/python tutorials/decode_on_two_cores.py [FOLDER]

FOLDER is a model from Hugging Face (``config.json`` and safetensors: GPT-2, Llama, Mixtral) that
lies on this machine; nothing is downloaded. Without it, a small GPT with random weights is made.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import safetensors.numpy

import tvm_hetero as th
from tvm_hetero.generation.generate import Generation
from tvm_hetero.platform.host import available_cores

VOCABULARY, WIDTH, LAYERS, LENGTH = 512, 64, 4, 128


def main(
    folder: Path | None = None,
    target: Path = Path("demo/decoder.hetero"),
    cost_model: str = "profiled",
    time_limit: float = 5.0,
) -> list[Generation]:
    """Tell the story; returns what was generated."""
    with tempfile.TemporaryDirectory() as scratch:
        return _tell(folder or small_gpt(Path(scratch) / "gpt"), target, cost_model, time_limit)


def _tell(folder: Path, target: Path, cost_model: str, time_limit: float) -> list[Generation]:
    # ---------------------------------------------------------------- 1. a model
    # A decoder comes as two task graphs: a step (one token) and a prefill (a chunk of a prompt).
    # The caches of its attention are state: they live where the attention runs and are written in
    # place.
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    print(f"1. {folder.name}: {config['model_type']}, {config['vocab_size']} tokens")

    # ---------------------------------------------------------------- 2. two unlike cores
    # Core 0 runs what the processor can, core 1 code for an older one. A machine with a single
    # core plays both.
    cores = sorted(available_cores())[:2]
    platform = th.Platform.detect(2, [None, "x86-64-v2"], cores=cores)
    if cost_model == "analytical":  # made-up figures, in the place of measured ones
        platform = described(platform)
    for device in platform.devices:
        print(f"2. device {device.name}: cores {list(device.cores)}, target {device.target}")

    # ---------------------------------------------------------------- 3. plans
    # For throughput: groups of sequences are in flight together, each device works on another.
    # Both graphs are lowered, measured, solved and compiled; the folder holds two artifacts.
    options = th.DecoderOptions(batch=2, groups=2, length=LENGTH, chunk=16)
    facts = th.build_decoder(
        folder, platform, target, options,
        objective="throughput", time_limit=time_limit, cost_model=cost_model, measure=False,
    )  # fmt: skip
    print(f"3. {facts.groups} groups of {facts.batch} sequences, caches of {facts.length} tokens")

    # ---------------------------------------------------------------- 4. who does what
    with th.load(target) as decoder:
        busy = sorted({execution.device for execution in decoder.steps.schedule.executions})
        shared = decoder.shared_bytes / (decoder.weight_bytes + decoder.shared_bytes)
        print(f"4. devices that work in a step: {', '.join(busy)}")
        print(f"   {100 * shared:.0f} % of the weights are in memory once for both graphs")

        # ------------------------------------------------------------ 5. tokens
        # More prompts than slots: who is done makes room for the next. Greedy decoding is the
        # default; `stream` gives tokens as they come.
        prompts = [[7 * n + 1, 7 * n + 2, 7 * n + 3] for n in range(6)]
        made = decoder.generate(prompts, 12)
        for each in made[:3]:
            print(f"5. {each.prompt} goes on {each.tokens} ({each.reason})")
        first = [token for sequence, token in decoder.stream(prompts, 12) if sequence == 0]
        print(f"   streamed, the same: {first == made[0].tokens}")

        # ------------------------------------------------------------ 6. drawn tokens
        # A draw hangs on the seed, the sequence and the position alone: not on what else runs.
        sampling = th.Sampling(temperature=0.9, top_k=50, top_p=0.95, seed=1)
        drawn = [decoder.generate(prompts[:n], 12, sampling=sampling)[0].tokens for n in (1, 6)]
        print(f"6. drawn {drawn[0]}")
        print(f"   the same among five others: {drawn[0] == drawn[1]}")
    return made


def described(platform: th.Platform) -> th.Platform:
    """The platform with figures of its devices and links, which nobody measured."""
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    devices = tuple(replace(device, **figures) for device in platform.devices)
    pairs = permutations(platform.names, 2)
    links = tuple(th.Link(one, other, bandwidth=1e10, latency=1e-6) for one, other in pairs)
    return replace(platform, devices=devices, links=links)


def small_gpt(folder: Path, seed: int = 0) -> Path:
    """Write a small GPT-2 with random weights in Hugging Face's layout; its folder."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    weights = {
        "transformer.wte.weight": matrix(VOCABULARY, WIDTH) * 4,
        "transformer.wpe.weight": matrix(LENGTH, WIDTH),
        "transformer.ln_f.weight": np.ones(WIDTH, np.float32),
        "transformer.ln_f.bias": np.zeros(WIDTH, np.float32),
    }
    for layer in range(LAYERS):
        for part, columns, rows in (
            ("attn.c_attn", 3 * WIDTH, WIDTH), ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", 4 * WIDTH, WIDTH), ("mlp.c_proj", WIDTH, 4 * WIDTH),
        ):  # fmt: skip
            name = f"transformer.h.{layer}.{part}"
            weights[f"{name}.weight"] = matrix(rows, columns)
            weights[f"{name}.bias"] = np.zeros(columns, np.float32)
        for norm in ("ln_1", "ln_2"):
            weights[f"transformer.h.{layer}.{norm}.weight"] = np.ones(WIDTH, np.float32)
            weights[f"transformer.h.{layer}.{norm}.bias"] = np.zeros(WIDTH, np.float32)
    folder.mkdir(parents=True)
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    config = {
        "model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": 4,
        "n_positions": LENGTH, "vocab_size": VOCABULARY, "eos_token_id": VOCABULARY - 1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
