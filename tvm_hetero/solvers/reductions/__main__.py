"""``python -m tvm_hetero.solvers.reductions PROBLEM``: the forms of a problem and their sizes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.reductions import describe_forms


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the forms of a problem; 1 if it cannot be read or has no schedule."""
    parser = argparse.ArgumentParser(prog="python -m tvm_hetero.solvers.reductions")
    parser.add_argument("problem", help="a problem (JSON, see docs/formats.md)")
    try:
        print(describe_forms(Problem.load(parser.parse_args(arguments).problem)))
    except HeteroError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
