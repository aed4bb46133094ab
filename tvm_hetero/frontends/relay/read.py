"""A saved Relay program, in whichever of the two forms, to a `RelayProgram`. Knows no TVM."""

from __future__ import annotations

import os
from pathlib import Path

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits, read_file
from tvm_hetero.frontends.relay.core.program import RelayProgram
from tvm_hetero.frontends.relay.gc_pause import paused
from tvm_hetero.frontends.relay.json_reader.from_graph import program_of
from tvm_hetero.frontends.relay.json_reader.graph_file import is_graph, parse_graph
from tvm_hetero.util.untrusted_names import printable

_LONGEST_PATH = 4096


def read(
    path_or_text: str | os.PathLike[str], limits: RelayLimits = DEFAULT_LIMITS
) -> tuple[RelayProgram, str]:
    """Return the program of a file, or of its content, and a name for it.

    Raises
    ------
    ModelError
        It cannot be read.
    """
    if isinstance(path_or_text, str) and _is_content(path_or_text):
        return parse(path_or_text, "the text", limits), "model"
    path = Path(path_or_text)
    content = read_file(path, limits.file_bytes, "a saved Relay program")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{printable(path)}: no text (byte {error.start}); expected what tvm.ir.save_json or "
            "mod.astext() of TVM 0.19 or older gave"
        ) from None
    return parse(text, printable(path), limits), path.name.split(".")[0]


def _is_content(text: str) -> bool:
    """Whether a text is a program rather than the path of one."""
    start = text[:200].lstrip("\ufeff \t\r\n")
    return is_graph(start) or len(text) > _LONGEST_PATH or any(c in text for c in "\n{")


@paused()
def parse(text: str, name: str, limits: RelayLimits = DEFAULT_LIMITS) -> RelayProgram:
    """Return the program of a text in either form."""
    if is_graph(text):
        return program_of(parse_graph(text, name, limits), name, limits)
    from tvm_hetero.frontends.relay.text_reader.parser import parse_text

    return parse_text(text, name, limits)
