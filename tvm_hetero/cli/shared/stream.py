"""``tvm-hetero run --stream``: inputs as fast as they go through, and a view of what is adapted.

On a terminal the stages, their times and the last switches are shown and renewed in place;
elsewhere each switch is a line, so that a log tells what was done and why.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable, printable_lines

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.executor.executor import Executor
    from tvm_hetero.online.live.adapter import AdaptationEvent

# Switches that are shown.
_SHOWN = 6
# Between two renewals of the view, s.
_RENEWED = 0.2


@dataclass
class StreamLog:
    """What happened in a stream; times in seconds since it began.

    Attributes
    ----------
    ends : when each request ended.
    events : what a policy saw and did.
    idle : why nothing was adapted; failure : why the policy gave up; "" where that is not so.
    lasts : for how long requests enter; 0: that is not known.
    """

    began: float = field(default_factory=time.monotonic)
    ends: list[float] = field(default_factory=list)
    events: list[AdaptationEvent] = field(default_factory=list)
    idle: str = ""
    failure: str = ""
    lasts: float = 0.0

    def note(self, event: AdaptationEvent) -> None:
        """One more event."""
        self.events.append(event)

    @property
    def switches(self) -> list[AdaptationEvent]:
        """Those in which another configuration began."""
        return [event for event in list(self.events) if event.switched]

    def rate(self, seconds: float) -> float:
        """Requests/s over the last so many seconds."""
        now = time.monotonic() - self.began
        window = min(now, seconds)
        late = 0
        for end in reversed(self.ends):
            if end < now - window:
                break
            late += 1
        return late / window if window > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints: requests of each second, and the switches."""
        seconds = int(self.ends[-1]) if self.ends else 0
        counts = [0] * (seconds + 1)
        for end in self.ends:
            counts[int(end)] += 1
        return {
            "requests": len(self.ends),
            "seconds": self.ends[-1] if self.ends else 0.0,
            "requests_by_second": counts,
            "switches": [event_dict(event, self.began) for event in self.switches],
            "idle": self.idle,
            "failure": self.failure,
        }


def event_dict(event: AdaptationEvent, began: float) -> dict[str, Any]:
    """An event as JSON; `began` is when its stream did."""
    return {
        "at": event.at - began,
        "configuration": event.configuration,
        "phase": event.phase,
        "why": event.why,
        "cause": event.cause,
        "rate": event.observation.rate,
        "stages": list(event.observation.times),
    }


def run_stream(
    steps: Steps, executor: Executor, inputs: Mapping[str, Any], seconds: float, log: StreamLog
) -> None:
    """Run inputs again and again for so many seconds; Ctrl-C ends it sooner."""
    log.began, log.lasts = time.monotonic(), seconds
    end = log.began + seconds
    with _view(steps, log):
        try:
            for _ in executor.map(_until(end, inputs)):
                log.ends.append(time.monotonic() - log.began)
        except KeyboardInterrupt:
            steps.say("stopped")
    log.idle = getattr(executor, "idle", "")
    log.failure = str(getattr(executor, "failure", None) or "")


def _until(end: float, inputs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    while time.monotonic() < end:
        yield inputs


def say_stream(steps: Steps, log: StreamLog) -> None:
    """What came of it."""
    if not log.ends:
        steps.say("no request ended", "yellow")
        return
    count, seconds = len(log.ends), log.ends[-1]
    steps.head("Stream")
    steps.say(f"{count} requests in {format_seconds(seconds)}: {count / seconds:.1f} a second")
    if log.events:
        steps.say(f"{len(log.switches)} switches; at the end: {log.events[-1].configuration}")
    if log.failure:
        steps.say(f"the policy gave up: {printable(log.failure, limit=None)}", "yellow")


@contextmanager
def _view(steps: Steps, log: StreamLog) -> Iterator[None]:
    """Shows what happens while the block runs, from a thread of its own."""
    ended = threading.Event()
    show = _renew if steps.on_terminal() else _print_switches
    thread = threading.Thread(target=show, args=(steps, log, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _print_switches(steps: Steps, log: StreamLog, ended: threading.Event) -> None:
    shown = 0
    last = False
    while not last:
        last = ended.wait(_RENEWED)
        events = list(log.events)
        for event in events[shown:]:
            if event.switched or event.phase == "settled":
                steps.say(printable(event_line(event, log.began), limit=None))
        shown = len(events)


def event_line(event: AdaptationEvent, began: float) -> str:
    """An event in a line."""
    cause = f" ({event.cause})" if event.cause else ""
    return f"{event.at - began:8.2f} s  {event.configuration}: {event.why}{cause}"


def _renew(steps: Steps, log: StreamLog, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=steps.quiet, markup=False, highlight=False)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not ended.wait(_RENEWED):
            live.update(_picture(log), refresh=True)


def _picture(log: StreamLog) -> Any:
    """Stages and their times as a table, and the last switches below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    events = list(log.events)
    now = time.monotonic() - log.began
    left = f"   {max(0.0, log.lasts - now):.0f} s left" if log.lasts else ""
    head = Text(f"{now:6.1f} s   {len(log.ends)} requests   {log.rate(1.0):.1f} a second{left}")
    if not events:
        return head
    latest = events[-1]
    table = Table("stage", "ms", "on its core", "waiting for it", box=None)
    configuration = latest.observation.configuration
    for number, stage in enumerate(latest.observation.stages):
        blocks = configuration.stage_text(number)
        cells = (stage.seconds, stage.cpu_seconds, stage.delay_seconds)
        table.add_row(blocks, *("" if c is None else f"{1e3 * c:.2f}" for c in cells))
    lines = deque((event_line(event, log.began) for event in log.switches), maxlen=_SHOWN)
    below = Text(printable_lines(lines))
    return Group(head, table, Text(printable(latest.configuration)), below)
