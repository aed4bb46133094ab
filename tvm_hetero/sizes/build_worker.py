"""The process that builds a size while others run: it may crash, and takes no request with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_hetero.processes.child_server import serve


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Build the size that is asked for; the answer is where its artifact is."""
    from tvm_hetero.sizes.build_on_use import build_size

    folder, into = Path(question["folder"]), Path(question["into"])
    return {"path": str(build_size(folder, tuple(question["size"]), into))}


if __name__ == "__main__":
    serve(answer)
