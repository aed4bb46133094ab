"""Folders of Hugging Face models that are nearly right: an answer in each case.

    python -m tests.fuzz.model_folders [--count N] [--first SEED] [--encoders]

A seed is a folder: a tiny model of one of the families, with its tokenizer and settings, in which a
file or two are changed, replaced by what is no file, or missing. It is imported, and its texts are
read, as `partition` and `serve` do. What is no answer (`limited.judge`) is printed with its seed;
the folders of these are kept.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.fuzz.limited import FAULT, Verdict, judge
from tests.fuzz.mutations import mutate_bytes, mutate_json, mutate_safetensors
from tests.fuzz.odd_files import REPLACEMENTS
from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.serve.small_tokenizer import write_texts
from tests.small_decoders import CONFIGS, tiny
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.frontends.huggingface.encoders.config import is_encoder
from tvm_hetero.frontends.huggingface.encoders.importer import encoder_from_huggingface
from tvm_hetero.serve.text.folder import read_texts
from tvm_hetero.util.leftovers import make_folder

# The threads of the package tokenizers do not live on in a child.
os.environ["TOKENIZERS_PARALLELISM"] = "false"

_KEPT = Path("build/fuzz/folders")
_LARGEST = 1 << 24  # a sparse file is changed no more


@cache
def _decoder(family: str, files: int) -> Path:
    """A folder that is right."""
    folder = tiny(family, make_folder("tvm-hetero-fuzz-"), files=files)
    write_texts(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 3], "temperature": 0.6}')
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return folder


@cache
def _encoder(family: str) -> Path:
    import transformers

    folder = make_folder("tvm-hetero-fuzz-")
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 4, "image_size": 16, "patch_size": 8, "vocab_size": 50,
    }  # fmt: skip
    config = transformers.AutoConfig.for_model(family, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return folder


def broken_folder(seed: int, folder: Path, *, encoders: bool = False) -> None:
    """Make the folder of a seed."""
    rng = random.Random(seed)
    if encoders:
        source = _encoder(rng.choice(["bert", "vit", "clip_text_model", "distilbert"]))
    else:
        source = _decoder(rng.choice(list(CONFIGS)), rng.choice([1, 1, 2]))
    shutil.copytree(source, folder)
    for _ in range(rng.choice([1, 1, 1, 2])):
        files = sorted(path for path in folder.iterdir())
        weights = {"config.json": 4, "model.safetensors": 4, "tokenizer.json": 2}
        path = rng.choices(files, [weights.get(file.name, 1) for file in files])[0]
        if rng.random() < 0.1:
            if path.is_symlink() or not path.is_dir():  # else it was replaced before
                rng.choice(REPLACEMENTS)(path)
        elif path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST:
            _change(path, rng)


def _change(path: Path, rng: random.Random) -> None:
    raw = path.read_bytes()
    if path.suffix == ".json" and raw[:1] == b"{" and raw[-1:] in b"}\n":
        try:
            path.write_bytes(mutate_json(raw, rng))
        except (ValueError, RecursionError):  # it was changed before and is none any more
            path.write_bytes(mutate_bytes(raw, rng))
    elif path.suffix == ".safetensors" and len(raw) > 8:
        path.write_bytes(mutate_safetensors(raw, rng))
    else:
        path.write_bytes(mutate_bytes(raw, rng))


def read_folder(folder: Path) -> None:
    """Import the model of a folder, and read its texts."""
    texts = read_texts(folder)
    if texts is not None:
        tokens = texts.tokenizer.encode("the dog")[:9]
        texts.tokenizer.decode(tokens)
        texts.tokenizer.find_doubled_start("the dog", tokens)
        for token in tokens:
            texts.tokenizer.label(token)
        if texts.chat is not None:
            texts.chat.render([{"role": "user", "content": "hello"}])
    if (folder / "config.json").is_file() and is_encoder(folder):
        encoder_from_huggingface(folder)
    else:
        from_huggingface(folder)


def attempt(seed: int, *, encoders: bool = False) -> Verdict:
    """The verdict on the folder of a seed."""
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-fuzz-") as place:
        folder = Path(place) / "model"
        broken_folder(seed, folder, encoders=encoders)
        return judge(lambda: read_folder(folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try seeds one after the other; 1 if there was a fault."""
    parser = harness_parser(__doc__)
    parser.add_argument("--encoders", action="store_true")
    asked = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in seeds(asked):
        verdict = attempt(seed, encoders=asked.encoders)
        counts[verdict.status] += 1
        if verdict.status == FAULT:
            print(f"seed {seed}: {verdict.told}", flush=True)
            shutil.rmtree(_KEPT / str(seed), ignore_errors=True)
            broken_folder(seed, _KEPT / str(seed), encoders=asked.encoders)
    return conclude(__file__, asked.first, counts, counts[FAULT])


if __name__ == "__main__":
    sys.exit(main())
