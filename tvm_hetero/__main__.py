"""``python -m tvm_hetero`` and ``tvm-hetero``: the command line."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return its exit status."""
    try:
        from tvm_hetero.cli.main import main as run

        return run()
    except KeyboardInterrupt:  # while Python still loads what the command line is made of
        return 130


if __name__ == "__main__":
    sys.exit(main())
