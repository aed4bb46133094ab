"""A byte-level tokenizer, made in a second, and a chat template: what a folder of texts has."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 320
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CORPUS = [
    "the quick brown fox jumps over the lazy dog and then the dog is lazy no more",
    "a server answers what it is asked, and says what it cannot answer",
    "grüße, 你好, 🎉🎉, naïve café",
] * 20


def make_tokenizer() -> tokenizers.Tokenizer:
    """All bytes, the special tokens first, and some merges."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(_CORPUS, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return made


def write_texts(folder: Path, *, template: str | None = TEMPLATE) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    make_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "<|im_end|>"}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
