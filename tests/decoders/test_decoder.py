"""Decoders of each family on two unlike devices: the tokens that transformers gives, whatever the
batch, and nothing broken by interruptions and wrong input."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import tvm_hetero
from tests.models import two_cpus
from tests.small_decoders import FAMILIES, tiny
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders import build as decoder_build
from tvm_hetero.decoders.build import DecoderOptions, build_decoder, decoder_facts
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.decoders.folder import read_facts, save_decoder
from tvm_hetero.errors import ArtifactError, InfeasibleError, ModelError, RunError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.shared_weights import share_weights
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.platform import Platform

LENGTH, CHUNK = 40, 16
PROMPTS = [
    [1, 2, 3], [4], list(range(5, 37)), [7, 7], list(range(60, 77)), [90, 3, 50, 8], [11] * 18, [2],
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each family's model."""
    path = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        tiny(family, path / family)
    return path


@pytest.fixture(scope="module")
def built(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A family's decoder of some options, built once."""
    home = tmp_path_factory.mktemp("decoders")

    def build(family: str, **options) -> Path:
        path = home / f"{family}-{options}.hetero"
        if not path.exists():
            platform = described(two_cpus())
            given = DecoderOptions(length=LENGTH, **{"chunk": CHUNK, **options})
            build_decoder(
                folders / family, platform, path, given,
                solver="heft", cost_model="analytical", measure=False,
            )  # fmt: skip
        return path

    return build


def described(platform: Platform) -> Platform:
    """The platform with the figures that the analytical cost model asks for."""
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    return replace(platform, devices=tuple(replace(d, **figures) for d in platform.devices))


@pytest.fixture(scope="module")
def wide(built) -> Iterator[Decoder]:
    """GPT-2 in two groups of three."""
    with Decoder.load(built("gpt2", batch=3, groups=2)) as decoder:
        yield decoder


@pytest.fixture(scope="module")
def narrow(built) -> Iterator[Decoder]:
    """GPT-2, one sequence at a time and token by token."""
    with Decoder.load(built("gpt2", chunk=1)) as decoder:
        yield decoder


def reference(folder: Path):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def continued(model, prompt: list[int], count: int) -> list[int]:
    """Greedy tokens of transformers."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False,
        pad_token_id=0,
    )  # fmt: skip
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_transformers(family, folders, built):
    model = reference(folders / family)
    with Decoder.load(built(family, batch=3, groups=2)) as decoder:
        made = decoder.generate(PROMPTS, 8)
    assert [each.tokens for each in made] == [continued(model, p, 8) for p in PROMPTS]
    assert {each.reason for each in made} <= {"stop", "limit"}
    assert all(each.error is None for each in made)


def test_logits_are_those_of_transformers(folders, wide):
    model, tokens = reference(folders / "gpt2"), list(range(20, 40))
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0].numpy()
    chunks = [wide.prefill(1, 2, tokens[p : p + 8], p).result() for p in (0, 8)]
    np.testing.assert_allclose(chunks, expected[[7, 15]], atol=1e-4)
    for p in range(16, 20):
        logits = wide.step(1, [0, 0, tokens[p]], [0, 0, p]).result()
        assert logits.shape == (3, 96)
        np.testing.assert_allclose(logits[2], expected[p], atol=1e-4)


def test_a_token_beyond_the_vocabulary_is_an_error_of_the_executor_too(folders, wide):
    """`Decoder` refuses it before; who runs the executor itself meets the kernel's check."""
    with torch.no_grad():
        expected = reference(folders / "gpt2")(torch.tensor([[5]])).logits[0, 0].numpy()
    position = np.zeros(3, np.int32)

    def step(*tokens: int):
        given = {"token": np.array(tokens, np.int32), "position": position}
        return wide.steps.run(given, state=wide.steps.new_state())[0].numpy()

    for token in (96, -1, 2**31 - 1):
        with pytest.raises(RunError, match=f"index {token} is out of bounds for axis 0 of size 96"):
            step(5, token, 0)
    np.testing.assert_allclose(step(5, 0, 95)[0], expected, atol=1e-4)


@pytest.mark.parametrize("cache", ["bfloat16", "float16"])
def test_caches_of_sixteen_bits(cache, folders, built):
    """They are half as large, in both plans, and what they round is seen by the logits."""
    model, tokens = reference(folders / "llama"), list(range(20, 40))
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0].numpy()
    path = built("llama", batch=2, cache=cache)
    with Decoder.load(path) as decoder:
        logits = [decoder.prefill(0, 1, tokens[:16], 0).result()]
        steps = (decoder.step(0, [0, tokens[p]], [0, p]) for p in range(16, 20))
        logits += [step.result()[1] for step in steps]
    off = np.abs(logits - expected[15:]).max()
    assert 1e-4 < off < (0.1 if cache == "bfloat16" else 0.01)
    assert read_facts(path).cache == cache
    sizes = [cache_bytes(where) for where in (path, built("llama", batch=2))]
    assert 2 * sizes[0] == sizes[1]


def cache_bytes(path: Path) -> int:
    """Of all sequences, in the step's plan and in the prefill's."""
    total = 0
    for part in ("step", "prefill"):
        plan = json.loads((path / part / "partition" / "plan.json").read_text())
        for row in plan["inputs"]:
            if row.get("state"):
                width = {"float32": 4, "bfloat16": 2, "float16": 2}[row["dtype"]]
                total += math.prod(row["shape"]) * width
    return total


def test_a_decoder_that_does_not_say_its_caches_has_float32(built, tmp_path):
    path = shutil.copytree(built("gpt2", batch=3, groups=2), tmp_path / "net.hetero")
    document = json.loads((path / "decoder.json").read_text(encoding="utf-8"))
    assert document.pop("cache") == "float32"
    (path / "decoder.json").write_text(json.dumps(document))
    assert read_facts(path).cache == "float32"


def test_neither_slots_nor_chunks_nor_neighbours_matter(wide, narrow):
    greedy = [each.tokens for each in wide.generate(PROMPTS, 8)]
    assert [each.tokens for each in narrow.generate(PROMPTS, 8)] == greedy
    sampling = Sampling(0.8, top_k=40, top_p=0.95, seed=3)
    drawn = [each.tokens for each in wide.generate(PROMPTS, 8, sampling=sampling)]
    assert [each.tokens for each in narrow.generate(PROMPTS, 8, sampling=sampling)] == drawn
    assert drawn != greedy
    assert [each.tokens for each in wide.generate(PROMPTS[:1], 8, sampling=sampling)] == drawn[:1]


def test_tokens_come_one_by_one(wide):
    made: list[list[int]] = [[] for _ in PROMPTS]
    for sequence, token in wide.stream(PROMPTS, 8):
        made[sequence].append(token)
    assert made == [each.tokens for each in wide.generate(PROMPTS, 8)]


def test_a_text_ends_where_the_caches_are_full(folders, wide):
    prompt = list(range(LENGTH - 3))
    made = wide.generate([prompt, [1]], 30, stop=())
    assert (len(made[0].tokens), made[0].reason) == (4, "full")
    assert made[0].tokens == continued(reference(folders / "gpt2"), prompt, 4)
    assert (len(made[1].tokens), made[1].reason) == (30, "limit")


def test_after_an_interruption_it_goes_on_as_if_nothing_had_been(wide):
    def press(sequence: int, token: int) -> None:
        raise KeyboardInterrupt

    expected = [each.tokens for each in wide.generate(PROMPTS, 8)]
    with pytest.raises(KeyboardInterrupt):
        wide.generate(PROMPTS, 8, told=press)
    stream = wide.stream(PROMPTS, 8)
    next(stream)
    stream.close()
    assert [each.tokens for each in wide.generate(PROMPTS, 8)] == expected


def test_closed_while_it_generates_everything_ends(built):
    decoder = Decoder.load(built("gpt2", batch=3, groups=2))

    def close(sequence: int, token: int) -> None:
        decoder.close()

    made = decoder.generate([[1, 2, 3]] * 12, 30, stop=(), told=close)
    assert {each.reason for each in made} == {"failed"}
    assert all("closed" in str(each.error) for each in made)
    for use in (decoder.generate, decoder.stream):
        with pytest.raises(RunError, match="the decoder is closed: make a new one"):
            use([[1, 2, 3]], 4)


def test_what_cannot_be_done_is_refused(wide, narrow):
    with pytest.raises(UsageError, match=r"prompt 1 has 41 tokens, but the caches hold 40"):
        wide.generate([[1], [1] * 41], 3)
    with pytest.raises(UsageError, match=r"prompt 0: there is no token 96; expected 0 to 95"):
        wide.generate([[96]], 3)
    with pytest.raises(UsageError, match="there is no token -1"):
        wide.step(0, [0, -1, 0], [0, 0, 0])
    with pytest.raises(UsageError, match="there is no row 40 in the caches"):
        wide.step(0, [0, 0, 0], [0, 0, 40])
    with pytest.raises(UsageError, match="there is no row 40 in the caches"):
        wide.prefill(0, 0, [1, 2], 39)
    with pytest.raises(UsageError, match="got 17 tokens, expected 1 to 16"):
        wide.prefill(0, 0, [1] * 17, 0)
    with pytest.raises(UsageError, match="no prefill"):
        narrow.prefill(0, 0, [1], 0)


def test_load_gives_a_decoder_or_an_executor(built):
    path = built("gpt2", batch=3, groups=2)
    with tvm_hetero.load(path) as decoder, tvm_hetero.load(path / "prefill") as prefill:
        assert isinstance(decoder, Decoder)
        assert decoder.stop == (95,)
        assert isinstance(prefill, Executor)
    with pytest.raises(ArtifactError, match=r"expected a decoder \(a folder with decoder.json\)"):
        Decoder.load(path / "prefill")


def test_what_is_no_decoder_is_told_how_to_become_one(built, folders, tmp_path):
    for load in (tvm_hetero.load, Decoder.load):
        with pytest.raises(ArtifactError, match=r"a model .*'tvm-hetero partition .*/gpt2 -o NAME"):
            load(folders / "gpt2")
        with pytest.raises(ArtifactError, match=r"(?s)a decoder.* Hugging Face model"):
            load(tmp_path / "missing.hetero")
    path = shutil.copytree(built("gpt2", batch=3, groups=2), tmp_path / "net.hetero")
    shutil.rmtree(path / "step")
    with pytest.raises(ArtifactError, match=r"the decoder .*net\.hetero has no step; build it"):
        tvm_hetero.load(path)


def test_equal_weights_are_in_memory_once(built):
    path = built("gpt2", batch=3, groups=2)
    parts = [load_artifact(path / name) for name in ("step", "prefill")]
    apart = sum(value.nbytes for part in parts for value in part.weights.values())
    shared = share_weights(parts)
    tensors = [list(part.weights.values()) for part in shared.executables]
    twice = {id(t) for t in tensors[0]} & {id(t) for t in tensors[1]}
    assert twice
    assert 0 < shared.saved == apart - shared.bytes
    for part, own in zip(parts, shared.executables, strict=True):
        for name, value in part.weights.items():
            np.testing.assert_array_equal(own.weights[name].numpy(), value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "tvm-hetero/decoder/9"}, 'expected "format": "tvm-hetero/decoder/1"'),
        ({"batch": 2}, "build it again"),
        ({"chunk": 8}, "build it again"),
        ({"length": 0}, "length: expected an integer from 1 to .*got 0"),
        ({"eos": [-1]}, r"eos\[0\]: expected an integer of at least 0, got -1"),
        ({"cache": 16}, "cache: expected text, got 16"),
        ({"surprise": 1}, "unknown key 'surprise'"),
    ],
)
def test_a_damaged_folder_is_refused(built, tmp_path, change, message):
    path = shutil.copytree(built("gpt2", batch=3, groups=2), tmp_path / "net.hetero")
    document = json.loads((path / "decoder.json").read_text(encoding="utf-8"))
    (path / "decoder.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(ArtifactError, match=message):
        Decoder.load(path)


def test_an_interrupted_build_leaves_nothing_and_harms_nothing(folders, tmp_path):
    def interrupted(name: str, *_: object):
        raise KeyboardInterrupt

    target, options = tmp_path / "out" / "net.hetero", DecoderOptions(length=LENGTH)
    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        decoder_build.make_decoder(folders / "gpt2", target, options, "latency", interrupted)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_build_that_cannot_be_written_leaves_the_old_one(built, folders, tmp_path):
    path = shutil.copytree(built("gpt2", batch=3, groups=2), tmp_path / "out" / "net.hetero")
    facts = decoder_facts(folders / "gpt2", DecoderOptions())

    def full(part: Path) -> None:
        part.mkdir()
        raise OSError(28, "No space left on device")

    with pytest.raises(ArtifactError, match="cannot be written: No space left"):
        save_decoder(path, facts, {"step": full})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["net.hetero"]
    Decoder.load(path).close()
    with pytest.raises(UsageError, match="is there and is no decoder"):
        save_decoder(tmp_path / "out", facts, {})


def test_options_that_do_not_fit_the_model(folders, tmp_path):
    for options, message in (
        (DecoderOptions(length=65), "length 65: the model was made for 64 tokens"),
        (DecoderOptions(length=8, chunk=9), "chunk 9: there are 8 rows"),
    ):
        with pytest.raises(UsageError, match=message):
            decoder_facts(folders / "gpt2", options)
    for given, message in (
        ({"batch": 0}, "batch 0: expected 1 or more"),
        ({"length": "9"}, "length '9': expected an integer, 1 or more"),
        ({"chunk": 1.5}, r"chunk 1\.5: expected an integer"),
        ({"shards": None}, "shards None: expected an integer"),
        ({"weights": "int7"}, "weights 'int7': expected one of float32"),
        ({"cache": "int8"}, "cache 'int8': expected one of float32, bfloat16, float16"),
    ):
        with pytest.raises(UsageError, match=message):
            DecoderOptions(**given)
    with pytest.raises(ModelError, match=r"config\.json"):
        decoder_facts(tmp_path, DecoderOptions())
    facts = decoder_facts(folders / "gpt2", DecoderOptions())
    assert (facts.length, facts.chunk, facts.eos) == (64, 32, (95,))
    assert type(DecoderOptions(length=np.int64(9)).length) is int  # which JSON knows


def test_caches_of_all_groups_count_as_memory(folders, tmp_path):
    platform = described(two_cpus())
    small = tuple(replace(device, memory=32 * 2**20) for device in platform.devices)
    options = DecoderOptions(batch=3, length=LENGTH, chunk=1, groups=4000)
    with pytest.raises(InfeasibleError, match="memory"):
        build_decoder(
            folders / "gpt2", replace(platform, devices=small), tmp_path / "net.hetero", options,
            cost_model="analytical", measure=False,
        )  # fmt: skip
    assert not (tmp_path / "net.hetero").exists()


def test_a_device_that_keeps_caches_to_itself(built):
    """Where the plans keep caches in different memories, there is no prefill."""
    path = built("gpt2", batch=3, groups=2)
    step, prefill = load_artifact(path / "step"), load_artifact(path / "prefill")
    assert decoder_build._alike(step, prefill)
    chosen = prefill.variants[prefill.default]
    moved = tuple(replace(device, dl_type=2) for device in chosen.plan.devices)
    elsewhere = replace(chosen, plan=replace(chosen.plan, devices=moved))
    variants = {**prefill.variants, prefill.default: elsewhere}
    assert not decoder_build._alike(step, replace(prefill, variants=variants))
