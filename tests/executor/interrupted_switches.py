"""Ctrl-C during switches, in a process of its own: ``... ARTIFACT`` prints as JSON what happened.

A signal is sent to the main thread by another one. On a machine that stalls it may arrive much
later than it was meant to: so it is awaited before anything else begins, and if it were to come
even then it would end this process instead of a worker of pytest-xdist with all of its tests.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.executor.gated import WAIT, result, vector
from tests.executor.switched import two_plans
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.processes.torch_import import hide_torch


class Presses:
    """Ctrl-C after some time, and whether it was heard."""

    def __init__(self) -> None:
        self.pressed = 0
        self.heard = 0
        self._arrived = threading.Event()
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        self._arrived.set()
        signal.default_int_handler(number, None)

    def press(self, seconds: float, body: Callable[[], object]) -> bool:
        """Do something, and press Ctrl-C after so many seconds; whether it ended before that.

        Whoever has ended waits for the signal.
        """
        self._arrived.clear()
        self.pressed += 1
        main = threading.main_thread().ident or 0
        timer = threading.Timer(seconds, signal.pthread_kill, [main, signal.SIGINT])
        has_ended = False
        try:
            timer.start()
            body()
            has_ended = True
            while not self._arrived.wait(0.01):
                pass
        except KeyboardInterrupt:
            self.heard += 1
        timer.join()
        return has_ended


def while_a_switch_waits(executable: Executable) -> dict[str, Any]:
    """The gate of the first plan is shut: nothing that waits for its end ends by itself."""
    presses, told = Presses(), {}
    with two_plans(executable) as two:
        pending = two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        waits: dict[str, Callable[[], object]] = {
            "drained": two.executor.await_drained,
            "switch": partial(two.executor.switch, "old"),
        }
        for name, wait in waits.items():
            has_ended = presses.press(0.05, wait)
            told[name] = [has_ended, two.executor.variant, result(two.executor.run(x=vector(2)))]
        two.old.open.set()
        first = result(pending.result(WAIT))
        two.executor.switch("old")
        return told | {"after": [first, result(two.executor.run(x=vector(3)))]}


def at_any_moment(executable: Executable) -> dict[str, Any]:
    """0 to 8 ms after a switch began, of which one takes some."""
    presses, results = Presses(), []
    with two_plans(executable) as two:
        two.old.open.set()
        for number in range(40):
            name = "old" if number % 2 else "new"
            presses.press(number * 2e-4, partial(two.executor.switch, name))
            results.append(result(two.executor.run(x=vector(number), deadline=WAIT)))
        told = {"pressed": presses.pressed, "heard": presses.heard}
        return told | {"results": results, "seen": two.seen}


def main(path: str) -> None:
    """Print what happened."""
    executable = load_artifact(path)
    print(json.dumps(while_a_switch_waits(executable) | at_any_moment(executable)))


if __name__ == "__main__":
    hide_torch()
    main(sys.argv[1])
