"""``tvm-hetero generate``: tokens out of a decoder that ``partition`` built of a folder."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.clusters import ClusterOption, place_decoder
from tvm_hetero.cli.shared.console import ConsoleStep, Steps
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.util.quote import quote

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.token_stream import TokenStream
    from tvm_hetero.decoders.decoder import Decoder
    from tvm_hetero.generation.generate import Generation
    from tvm_hetero.serve.text.tokenizer import TextTokenizer

_MOST_TEXT = 100_000  # characters of a sequence that are shown
_NUMBERS = re.compile(r"\d+([\s,]+\d+)*")


def generate(
    decoder: Annotated[
        Path,
        typer.Argument(metavar="NET.hetero", help="What 'partition' made of a decoder's folder."),
    ],
    prompt_ids: Annotated[
        list[str] | None,
        typer.Option("--prompt-ids", metavar='"1 2 3"', help="A prompt; repeatable."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts", metavar="FILE.json", help='Prompts: {"prompts": [[1, 2, 3], ...]}.'
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="A prompt as text, where the model's folder has tokenizer.json; repeatable.",
        ),
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", min=1, help="Tokens to generate for each prompt.")
    ] = 32,
    temperature: Annotated[
        float, typer.Option("--temperature", help="0 is greedy; 1 draws as the model says.")
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option("--top-k", help="Draw among so many of the likeliest; 0: all.")
    ] = 0,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Draw among the likeliest of that probability.")
    ] = 1.0,
    seed: options.Seed = 0,
    stop: Annotated[
        list[int] | None,
        typer.Option(
            "--stop", metavar="ID", help="A token that ends a text. [default: the model's]"
        ),
    ] = None,
    no_stop: Annotated[
        bool,
        typer.Option("--no-stop", help="No token ends a text: --max-new-tokens are made."),
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each token (of --prompt its text) as it comes.")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option("--variant", help="partition or single. [default: the artifacts']"),
    ] = None,
    cluster: ClusterOption = None,
    json_output: options.AsJson = False,
) -> None:
    """Generate tokens."""
    from tvm_hetero.cli.shared.token_stream import TokenStream
    from tvm_hetero.cli.shared.tokenizer import encode_prompts
    from tvm_hetero.generation.sampling import Sampling

    tokenizer = _tokenizer(decoder) if prompt else None
    if tokenizer is not None and (prompt_ids or prompts is not None):
        raise UsageError("give prompts as text (--prompt) or as token ids, not both")
    if stop and no_stop:
        raise UsageError("--stop and --no-stop: expected one of them")
    if tokenizer is None:
        asked = read_prompts(prompt_ids, prompts)
    else:
        asked = encode_prompts(tokenizer, prompt or [])
    sampling = Sampling(temperature, top_k, top_p, seed)
    steps = Steps(quiet=json_output)
    if cluster is not None and variant is not None:
        raise UsageError("--cluster runs the partition; leave out --variant")
    with (
        load_decoder(steps, decoder, variant)
        if cluster is None
        else place_decoder(steps, decoder, cluster)
    ) as loaded:
        live = TokenStream(len(asked), tokenizer, json_output) if stream else None
        with _counted(steps, decoder, counted=not stream) as running:
            started = time.perf_counter()
            made = loaded.generate(
                asked,
                max_new_tokens,
                sampling=sampling,
                stop=() if no_stop else stop,
                told=_told(live, running, len(asked) * max_new_tokens),
            )
            seconds = time.perf_counter() - started
    if live is not None:
        live.finish()
    if json_output:
        typer.echo(json.dumps(generations_json(made, seconds, tokenizer)))
    else:
        _say(steps, made, seconds, tokenizer)
    failed = [each for each in made if each.error is not None]
    if failed:
        raise RunError(f"{len(failed)} of {len(made)} sequences failed: {failed[0].error}")


def _counted(
    steps: Steps, decoder: Path, *, counted: bool
) -> AbstractContextManager[ConsoleStep | None]:
    """The line that counts tokens, where they are not printed as they come."""
    return steps.live("Generate", of=decoder) if counted else nullcontext()


def _told(
    live: TokenStream | None, running: ConsoleStep | None, most: int
) -> Callable[[int, int], None] | None:
    """Who hears of each token: the stream, or the line that counts them on a terminal."""
    if live is not None:
        return live.tell
    if running is None:
        return None
    numbers, tell = count(1), running.counter("tokens")
    return lambda _sequence, _token: tell(next(numbers), most)


def _tokenizer(path: Path) -> TextTokenizer:
    from tvm_hetero.cli.shared.tokenizer import tokenizer_of
    from tvm_hetero.decoders.folder import read_facts

    return tokenizer_of(path, read_facts(path).source)


def read_prompts(texts: list[str] | None, path: Path | None) -> list[list[int]]:
    """Prompts of the command line, or of a file.

    Raises
    ------
    UsageError
        If there are none, they are in both places, or they are no token ids.
    """
    if texts and path is not None:
        raise UsageError("--prompt-ids and --prompts: expected one of them")
    if not texts and path is None:
        raise UsageError(
            'give prompts: --prompt-ids "1 2 3" or --prompt TEXT (repeatable), or --prompts FILE'
        )
    if path is not None:
        return _read_file(path)
    found = []
    for text in texts or []:
        if not _NUMBERS.fullmatch(text.strip()):
            raise UsageError(f'--prompt-ids {quote(text, 60)}: expected token ids, such as "1 2 3"')
        found.append([int(number) for number in re.split(r"[\s,]+", text.strip())])
    return found


def _read_file(path: Path) -> list[list[int]]:
    from tvm_hetero.util.documents import check_keys, read_document

    prompts = check_keys(read_document(path), str(path), ["prompts"])["prompts"]
    rows = isinstance(prompts, list) and all(isinstance(row, list) for row in prompts)
    if not rows or not all(type(token) is int for row in prompts for token in row):
        raise UsageError(f'{path}: expected {{"prompts": [[1, 2, 3], ...]}}, lists of token ids')
    return [list(row) for row in prompts]


def load_decoder(steps: Steps, path: Path, variant: str | None = None) -> Decoder:
    """Step: load a decoder and start its executors."""
    with steps.step("Load decoder", of=path) as step:
        from tvm_hetero.decoders.decoder import Decoder

        decoder = Decoder.load(path, variant)
        both = f", {decoder.shared_bytes:,} of them for step and prefill alike"
        step.note = f"{path}, weights of {decoder.weight_bytes:,} bytes{both}"
    return decoder


def generations_json(
    made: list[Generation], seconds: float, tokenizer: TextTokenizer | None = None
) -> dict[str, Any]:
    """What ``generate --json`` prints."""
    tokens = sum(len(each.tokens) for each in made)
    return {
        "sequences": [
            {
                "prompt": list(each.prompt),
                "tokens": each.tokens,
                "reason": each.reason,
                **({"text": tokenizer.decode(each.tokens)} if tokenizer is not None else {}),
                **({"error": str(each.error)} if each.error is not None else {}),
            }
            for each in made
        ],
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
    }


def _say(
    steps: Steps, made: list[Generation], seconds: float, tokenizer: TextTokenizer | None
) -> None:
    from tvm_hetero.util.untrusted_names import printable

    steps.head("Tokens")
    for number, each in enumerate(made):
        steps.say(f"{number}: {' '.join(map(str, each.tokens))} ({each.reason})")
        if tokenizer is not None:
            steps.say(f"   {printable(tokenizer.decode(each.tokens), _MOST_TEXT)}")
    tokens = sum(len(each.tokens) for each in made)
    prompted = sum(len(each.prompt) for each in made)
    steps.say()
    steps.say(
        f"{tokens} tokens after {prompted} of prompts in {seconds:.3f} s: "
        f"{tokens / seconds:.1f} tokens/s"
    )
