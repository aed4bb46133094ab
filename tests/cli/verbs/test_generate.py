"""``tvm-hetero partition FOLDER``, ``generate`` and ``show`` of a decoder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers

from tests.cli.invoke import tvm_hetero
from tests.models import two_cpus
from tests.small_decoders import tiny
from tvm_hetero.cli.shared.token_stream import TokenStream
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.serve.text.tokenizer import TextTokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``gpt2``, a model; ``two.yaml``, two unlike devices."""
    path = tmp_path_factory.mktemp("decoder")
    tiny("gpt2", path / "gpt2")
    platform = two_cpus()
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    devices = tuple(replace(device, **figures) for device in platform.devices)
    replace(platform, devices=devices).save(path / "two.yaml")
    return path


def partition(folder: Path, output: Path, *more: object):
    return tvm_hetero(
        "partition", folder / "gpt2", "-o", output, "--platform", folder / "two.yaml",
        "--cost-model", "analytical", "--solver", "heft", "--no-measure", "--length", 40, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def net(folder: Path) -> Path:
    outcome = partition(
        folder, folder / "net.hetero", "--chunk", 16, "--batch", 3, "--groups", 2, "--json"
    )
    assert outcome.status == 0, outcome.err
    told = json.loads(outcome.out)
    assert (told["family"], told["length"], told["chunk"], told["groups"]) == ("gpt2", 40, 16, 2)
    assert told["parts"].keys() == {"step", "prefill"}
    assert "Step, latency, batch 3" in outcome.err
    return folder / "net.hetero"


def expected(net: Path, prompts: list[list[int]], count: int) -> list[list[int]]:
    with Decoder.load(net) as decoder:
        return [each.tokens for each in decoder.generate(prompts, count)]


def test_generate_prints_tokens_and_their_rate(net):
    outcome = tvm_hetero(
        "generate", net, "--prompt-ids", "1 2 3", "--prompt-ids", "4,5", "--max-new-tokens", 6
    )
    assert outcome.status == 0, outcome.err
    for number, tokens in enumerate(expected(net, [[1, 2, 3], [4, 5]], 6)):
        assert f"{number}: {' '.join(map(str, tokens))} (" in outcome.out
    assert " tokens/s" in outcome.out
    assert "for step and prefill alike" in outcome.out


def test_generate_streams_lines_of_json(net, tmp_path):
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps({"prompts": [[1, 2, 3], [9]]}))
    outcome = tvm_hetero("generate", net, "--prompts", file, "--stream", "--json",
                         "--max-new-tokens", 5)  # fmt: skip
    *lines, last = [json.loads(line) for line in outcome.out.splitlines()]
    made = expected(net, [[1, 2, 3], [9]], 5)
    for number, tokens in enumerate(made):
        assert [line["token"] for line in lines if line["sequence"] == number] == tokens
    assert [each["tokens"] for each in last["sequences"]] == made
    assert last["tokens"] == sum(map(len, made))
    assert last["tokens_per_second"] > 0


def test_drawn_tokens_hang_on_the_seed(net):
    def drawn(*more: object) -> list[list[int]]:
        outcome = tvm_hetero("generate", net, "--prompt-ids", "1 2 3", "--json", "--temperature",
                             1.0, "--top-k", 50, "--top-p", 0.95, "--stop", 95, *more)  # fmt: skip
        return [each["tokens"] for each in json.loads(outcome.out)["sequences"]]

    assert drawn("--seed", 1) == drawn("--seed", 1)
    assert drawn("--seed", 1) != drawn("--seed", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give prompts: --prompt-ids"),
        (["--prompt-ids", "1 x"], "--prompt-ids '1 x': expected token ids"),
        (["--prompt-ids", ""], "expected token ids"),
        (["--prompt-ids", "1 96"], "prompt 0: there is no token 96; expected 0 to 95"),
        (["--prompt-ids", " ".join(["1"] * 41)], "prompt 0 has 41 tokens"),
        (["--prompt-ids", "1", "--stop", "99"], "stop: there is no token 99"),
        (["--prompt-ids", "1", "--top-p", "0"], "top_p 0.0: expected more than 0"),
        (["--prompt-ids", "1", "--variant", "other"], "has no variant 'other'"),
        (["--prompts", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--prompts", "p.json", "--prompt-ids", "1"], "and --prompts: expected one of them"),
        (["--prompt-ids", "1", "--stop", "1", "--no-stop"], "and --no-stop: expected one of them"),
    ],
)
def test_wrong_requests_are_refused(net, arguments, message):
    outcome = tvm_hetero("generate", net, *arguments)
    assert outcome.status == 2
    assert message in outcome.err


def test_tokens_that_end_a_text_and_none(net, tmp_path):
    with Decoder.load(net) as decoder:
        (endless,) = decoder.generate([[1, 2, 3]], 6, stop=())
    first = endless.tokens[0]
    net = shutil.copytree(net, tmp_path / "net.hetero")
    facts = json.loads((net / "decoder.json").read_text(encoding="utf-8"))
    (net / "decoder.json").write_text(json.dumps({**facts, "eos": [first]}))
    for more, tokens, reason in (
        ((), [first], "stop"),
        (("--stop", 0), endless.tokens, "limit"),
        (("--no-stop",), endless.tokens, "limit"),
    ):
        outcome = tvm_hetero("generate", net, "--prompt-ids", "1 2 3", "--json",
                             "--max-new-tokens", 6, *more)  # fmt: skip
        (made,) = json.loads(outcome.out)["sequences"]
        assert (made["tokens"], made["reason"]) == (tokens, reason)


@pytest.mark.parametrize("text", ['{"prompts": [1]}', '{"prompts": [["a"]]}', '{"prompts": 3}'])
def test_a_file_of_prompts_that_is_none(net, tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    outcome = tvm_hetero("generate", net, "--prompts", tmp_path / "p.json")
    assert outcome.status == 2
    assert 'expected {"prompts": [[1, 2, 3], ...]}' in outcome.err


def test_prompts_as_text(net, folder, tmp_path):
    words = {f"w{n}": n for n in range(96)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    target = folder / "gpt2" / "tokenizer.json"
    arguments = ("generate", net, "--prompt", "w1 w2 w3", "--max-new-tokens", 6)
    assert "there is no" in tvm_hetero(*arguments).err
    try:
        made.save(str(target))
        outcome, told = tvm_hetero(*arguments), tvm_hetero(*arguments, "--json")
        target.write_text("{}")
        assert "is no tokenizer" in tvm_hetero(*arguments).err
    finally:
        target.unlink()
    (tokens,) = expected(net, [[1, 2, 3]], 6)
    text = " ".join(f"w{token}" for token in tokens)
    assert text in outcome.out
    assert json.loads(told.out)["sequences"][0]["text"] == text
    both = tvm_hetero(*arguments, "--prompt-ids", "1")
    assert both.status == 2


@pytest.fixture
def with_bytes(net: Path, tmp_path: Path) -> Path:
    """A decoder with a byte-level tokenizer saved for training, that puts <s> before each text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        {letter: n for n, letter in enumerate(["<s>", *"abcdefgh", *"ðŁĺĬĊ"])}, []
    ))  # fmt: skip
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made.enable_truncation(2)
    made.enable_padding(length=9)
    net = shutil.copytree(net, tmp_path / "net.hetero")
    made.save(str(net / "tokenizer.json"))
    return net


def test_prompts_are_whole_and_a_first_token_twice_is_told(with_bytes):
    arguments = ("generate", with_bytes, "--max-new-tokens", 1, "--json")
    outcome = tvm_hetero(*arguments, "--prompt", "abcd", "--prompt", "<s>abcd")
    rows = [each["prompt"] for each in json.loads(outcome.out)["sequences"]]
    assert rows == [[0, 1, 2, 3, 4], [0, 0, 1, 2, 3, 4]]
    assert "prompt 1 begins with <s>, which the tokenizer puts before each text" in outcome.err
    assert "prompt 0" not in outcome.err


def test_a_text_streams_as_text(with_bytes):
    arguments = ("generate", with_bytes, "--prompt", "abcd", "--max-new-tokens", 9)
    whole = json.loads(tvm_hetero(*arguments, "--json").out)["sequences"][0]
    told = tvm_hetero(*arguments, "--json", "--stream").out.splitlines()
    lines = [json.loads(line) for line in told[:-1]]
    assert "".join(line["text"] for line in lines) == whole["text"]
    assert [line["token"] for line in lines if "token" in line] == whole["tokens"]


def test_a_streamed_text_holds_back_halves_of_characters(with_bytes, capsys):
    tokenizer = TextTokenizer(with_bytes / "tokenizer.json")
    face = [9, 10, 11, 12]  # the four bytes of one character; then half of another
    for count, expected in ((1, "a😊\nb\ufffd\n"), (2, "1 a\n1 😊\n1 \\n\n1 b\n1 \ufffd\n")):
        stream = TokenStream(count, tokenizer, as_json=False)
        for token in (1, *face, 13, 2, 9, 10):
            stream.tell(count - 1, token)
        stream.finish()
        assert capsys.readouterr().out == expected


def test_show_tells_what_a_decoder_is(net):
    outcome = tvm_hetero("show", net)
    assert outcome.status == 0, outcome.err
    for text in ("gpt2", "40 tokens", "2 groups of 3", "16 tokens", "float32", "Step", "Prefill"):
        assert text in outcome.out


@pytest.mark.parametrize("arguments", [("run", "--random"), ("bench",)])
def test_run_and_bench_say_what_runs_a_decoder(net, arguments):
    outcome = tvm_hetero(arguments[0], net, *arguments[1:])
    assert outcome.status == 2
    assert "is a decoder: 'tvm-hetero generate" in outcome.err


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("gpt2", ["--shape", "token=1x2"], "--shape is for ONNX models"),
        ("gpt2", ["--random-weights", 1], "--random-weights is for ONNX models"),
        ("gpt2", ["--length", 65], "length 65: the model was made for 64 tokens"),
        ("gpt2", ["--chunk", 0], "--chunk 0: expected 1 or more"),
        ("gpt2", ["--weights", "int3"], "--weights 'int3': expected one of float32"),
        ("gpt2", ["--cache", "int8"], "--cache 'int8': expected one of float32, bfloat16"),
        (".", [], "is a folder without config.json"),
        ("two.yaml", ["--length", 8], "--length is for decoders"),
        ("two.yaml", ["--weights", "int8"], "--weights is for decoders"),
        ("two.yaml", ["--cache", "bfloat16"], "--cache is for decoders"),
    ],
)
def test_wrong_combinations_are_refused(folder, tmp_path, model, arguments, message):
    outcome = tvm_hetero(
        "partition", folder / model, "-o", tmp_path / "x.hetero", *arguments,
        "--platform", folder / "two.yaml", "--cost-model", "analytical",
    )  # fmt: skip
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "x.hetero").exists()


def test_interrupted_while_it_generates(net):
    """A real Ctrl-C, in the middle of endless texts."""
    prompts = [a for n in range(90) for a in ("--prompt-ids", str(n))]
    command = [sys.executable, "-m", "tvm_hetero", "generate", str(net), *prompts, "--stream",
               "--max-new-tokens", "39", "--stop", "0"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any(line[:1].isdigit() for line in process.stdout), "it ended before its first token"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:  # it was quicker
        assert "tokens/s" in out
    else:
        assert process.returncode == 130
        assert "interrupted" in err
        assert "Traceback" not in err
