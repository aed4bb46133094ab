"""A child process that answers questions, and may crash or hang while it thinks.

Question and answer are lines of JSON on pipes. The child's own standard output goes to its
standard error (native code may print), which is kept in a temporary file, so that the last words
of a crashed child can be quoted. The child is in a session of its own: Ctrl-C reaches the parent
alone, which ends the child in an orderly way.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tvm_hetero
from tvm_hetero.util.quote import quote

# A child of ours never answers with more than a few kilobytes a line.
_MAX_LINE = 1 << 20
# A child that is stopped has a deadline too, but a long one. It is looked at so often (s), and lost
# when it was stopped each of so many times in a row: who stops all of us lets all go on.
_LOOK, _LOOKS = 1.0, 5
# Seconds that a child has to remove its temporary files.
_PATIENCE = 0.3
SIGNAL_MEANINGS = {
    "SIGSEGV": "it touched memory that is not its own",
    "SIGILL": "this CPU lacks an instruction that it uses",
    "SIGABRT": "it aborted",
    "SIGFPE": "it divided by zero",
    "SIGKILL": "it was killed; the machine may be out of memory",
}


class WorkerLost(Exception):
    """The child crashed or was stopped for taking too long; the text says which.

    `signal` is the name of the signal that ended it, or ''.
    """

    def __init__(self, reason: str, signal_name: str = "") -> None:
        super().__init__(reason)
        self.signal = signal_name


_MAIN = "tvm_hetero.processes.child_main"


class Worker:
    """A running child: ``python -m MODULE``, in which PyTorch is not found (`child_main`).

    Parameters
    ----------
    module : its main program.
    host_only : it runs nothing but the CPU's kernels; TVM loads in it without its back ends for
        accelerators.
    """

    def __init__(self, module: str, *, host_only: bool = False) -> None:
        # The package may be used straight from its folder, without being installed.
        package = str(Path(tvm_hetero.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        without = {"TVM_DEVICE_BACKEND_AUTOLOAD": "0"} if host_only else {}
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `close`
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MAIN, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": path, **without},
            start_new_session=True,
        )

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one question and wait for its answer.

        Parameters
        ----------
        question : anything that JSON can say.
        seconds : how long to wait; a child that takes longer is killed.

        Raises
        ------
        WorkerLost
            If the child has ended, says something that is no answer, or takes too long. It is
            of no use afterwards: `close` it.
        """
        line = json.dumps(question).encode() + b"\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = json.loads(self._read_line(seconds))
        except (BrokenPipeError, EOFError):
            raise self._ended() from None
        except ValueError:
            raise WorkerLost("it answered with something that is not JSON") from None
        if not isinstance(answer, dict):
            raise WorkerLost(f"it answered {quote(answer)}")
        return answer

    def kill(self) -> None:
        """End the child and its own, so that who waits for an answer hears that it is lost.

        It has a moment for its temporary files (`clean_end`).
        """
        # Its session's number is its own process number; the group may be gone already.
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                self._process.terminate()
                if self._is_ours_after(_PATIENCE):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _is_ours_after(self, seconds: float) -> bool:
        """Wait for its end, and leave it to be reaped: until then its number is nobody else's.

        False if another thread has reaped it.
        """
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        until = time.monotonic() + seconds
        try:
            while os.waitid(os.P_PID, self._process.pid, ended) is None:
                if time.monotonic() > until:
                    break
                time.sleep(0.002)
        except ChildProcessError:
            return False
        return True

    def close(self) -> None:
        """End the child, whatever it is doing, and everything that it started."""
        self.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                with contextlib.suppress(OSError):  # unsent bytes for a dead child
                    file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        stopped = 0
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WorkerLost(f"it did not end within {seconds:g} s")
            if not select.select([handle], [], [], min(left, _LOOK))[0]:
                stopped = stopped + 1 if self._is_stopped() else 0
                if stopped == _LOOKS:
                    raise WorkerLost("it was stopped (by SIGSTOP), and nobody let it go on")
                continue
            chunk = os.read(handle, 65536)
            if not chunk:
                raise EOFError
            self._unread += chunk
            if len(self._unread) > _MAX_LINE:
                raise WorkerLost("its answer is too long")
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _is_stopped(self) -> bool:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{self._process.pid}/stat").read_text(errors="replace")
            return text.rpartition(")")[2].split()[:1] == ["T"]
        return False

    def _ended(self) -> WorkerLost:
        """Why the child is gone: its signal, or its exit status and last words."""
        try:
            status = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return WorkerLost("it closed its pipe")
        if status < 0:
            name = signal.Signals(-status).name
            meaning = f" ({SIGNAL_MEANINGS[name]})" if name in SIGNAL_MEANINGS else ""
            return WorkerLost(f"it crashed with {name}{meaning}", name)
        if status == 128 + signal.SIGTERM:
            return WorkerLost("it was told to end")
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 4096))
        words = self._stderr.read().decode(errors="replace").strip().splitlines()
        return WorkerLost(f"it ended with status {status}" + (f": {words[-1]}" if words else ""))
