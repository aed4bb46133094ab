"""Imports one file, as the JSON on its command line says, and prints what became of it as JSON."""

from __future__ import annotations

import inspect
import json
import sys
import time
from typing import Any


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """Import the file; outcome, reason and seconds."""
    from tvm_hetero.errors import HeteroError
    from tvm_hetero.frontends.onnx import from_onnx

    keywords: dict[str, Any] = {}
    if given["values"] and "values" in inspect.signature(from_onnx).parameters:
        import numpy as np

        keywords["values"] = {name: np.asarray(v) for name, v in given["values"].items()}
    outcome, reason, begun = "imported", "", time.perf_counter()
    try:
        from_onnx(given["path"], shapes=given["shapes"], **keywords)
    except HeteroError as error:
        outcome, reason = "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        outcome, reason = "exception", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begun
    return {"outcome": outcome, "reason": reason, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
