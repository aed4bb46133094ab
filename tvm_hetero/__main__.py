"""``python -m tvm_hetero``: the command line."""

from __future__ import annotations

import sys

from tvm_hetero.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
