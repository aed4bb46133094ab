"""``python -m tvm_hetero`` and ``tvm-hetero``: the command line."""

from __future__ import annotations

import atexit
import sys

from tvm_hetero.processes.signals import make_watch


def main() -> int:
    """Run the command line of this process and return its exit status."""
    watch = make_watch()
    status = 0
    try:
        watch.begin()
        from tvm_hetero.cli.main import main as run

        status = run()
        is_interrupted = watch.finish()
    except KeyboardInterrupt:  # while Python still loads what the command line is made of
        is_interrupted = True
    if is_interrupted:
        # What hangs from here on is ended by the watch, and not waited for: threads that compile.
        atexit._run_exitfuncs()
        _flush()
        watch.leave()
    return status


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):  # nobody reads it any more
                continue


if __name__ == "__main__":
    sys.exit(main())
