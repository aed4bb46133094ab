"""The drawings of docs/concepts.md: what a bound, a team, a precision, a policy and a server do.

    python -m docs.site.drawings        # writes docs/pictures/concept-*.svg

They show how things hang together and have no figures. Narrow enough for a phone.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path

from tvm_hetero.util.documents import write_atomic

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
_WIDTH = 480
_CHARACTER = 7.5  # of a text of 13 pixels
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2933; } .faint { fill: #5b6470; }
.a { fill: #cfe0f7; } .b { fill: #f6d9bd; } .c { fill: #d3ead9; } .none { fill: #eef0f3; }
rect { stroke: #8a94a3; } .line { stroke: #3b4654; fill: none; stroke-width: 1.5; }
.bound { stroke: #175cd3; stroke-width: 2; stroke-dasharray: 5 3; }
.plan { stroke: #b42318; stroke-width: 2; }
@media (prefers-color-scheme: dark) { text { fill: #e5e7eb; } .faint { fill: #a9b2be; }
.a { fill: #1d3b66; } .b { fill: #5c3a17; } .c { fill: #1f4a2d; } .none { fill: #262c35; }
rect { stroke: #5b6470; } .line { stroke: #c3cad4; } .bound { stroke: #84b6ff; }
.plan { stroke: #ff8a7a; } }
</style>
<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#7a8594"/></marker></defs>"""


def write_drawings(folder: Path = PICTURES) -> None:
    """Write all of them."""
    for name, draw in DRAWINGS.items():
        write_atomic(folder / f"concept-{name}.svg", draw())


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
    return "\n".join([f"{head} aria-label={html.escape(title)!r}>", _STYLE, *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{style}>{html.escape(text)}</text>'


def _box(x: float, y: float, width: float, text: str, kind: str = "a", height: float = 30) -> str:
    """A box with a text in its middle.

    Raises
    ------
    ValueError
        If the text is wider than the box.
    """
    if len(text) * _CHARACTER > width:
        raise ValueError(f"{text!r} needs a box of {len(text) * _CHARACTER:.0f}, not {width}")
    shape = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
    return shape + _text(x + width / 2, y + height / 2 + 4.5, text)


def _arrow(*points: tuple[float, float]) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline class="line" points="{path}" marker-end="url(#tip)"/>'


def _mark(x: float, kind: str, low: float, high: float) -> str:
    return f'<line class="{kind}" x1="{x}" y1="{low}" x2="{x}" y2="{high}"/>'


def draw_gap() -> str:
    """A bound, a plan and the gap between them, on an axis of seconds."""
    return _svg(
        "A bound, the plan that was found, and the gap between them", 150,
        [
            '<rect class="none" x="20" y="50" width="180" height="40"/>',
            _text(110, 75, "no plan is here: proven", kind="faint"),
            _box(200, 50, 90, "the gap", "b", 40),
            _box(290, 50, 150, "worse plans", "a", 40),
            _mark(200, "bound", 30, 105), _text(200, 22, "bound"),
            _mark(290, "plan", 30, 105), _text(290, 22, "plan"),
            _mark(420, "line", 30, 105), _text(420, 22, "one device"),
            _arrow((20, 110), (460, 110)),
            _text(460, 132, "seconds of one run", "end", "faint"),
            _text(20, 132, "the best plan lies in the gap", "start"),
        ],
    )  # fmt: skip


def draw_teams() -> str:
    """Two cores: wide operators have both, branches one each."""
    return _svg(
        "Operators on one core or on a team of two", 130,
        [
            _text(50, 35, "core 0", "end"), _text(50, 75, "core 1", "end"),
            _box(60, 15, 90, "conv", "a", 70),
            _box(150, 15, 120, "branch", "b"), _box(150, 55, 95, "branch", "c"),
            _box(270, 15, 100, "conv", "a", 70), _box(370, 15, 70, "pool", "c"),
            _arrow((60, 100), (460, 100)), _text(460, 120, "time", "end", "faint"),
            _text(60, 120, "a team of two, one core each, a team again", "start", "faint"),
        ],
    )  # fmt: skip


def draw_precision() -> str:
    """Tasks that gain by bfloat16 are chosen until the outputs' error is used up."""
    names = (("conv", "b"), ("relu", "a"), ("conv", "b"), ("conv", "a"), ("dense", "b"))
    parts = [_box(20 + 90 * i, 15, 75, name, kind) for i, (name, kind) in enumerate(names)]
    parts += [_arrow((95 + 90 * i, 30), (109 + 90 * i, 30)) for i in range(len(names) - 1)]
    return _svg(
        "Some tasks are computed in bfloat16, the others in float32", 140,
        [
            *parts,
            _box(20, 60, 75, "bfloat16", "b", 24), _box(110, 60, 75, "float32", "a", 24),
            _text(205, 77, "chosen by what they gain", "start", "faint"),
            _text(20, 118, "error of the outputs", "start"),
            '<rect class="none" x="160" y="104" width="240" height="18"/>',
            '<rect class="b" x="160" y="104" width="150" height="18"/>',
            _mark(400, "plan", 98, 128), _text(410, 118, "accuracy", "start"),
        ],
    )  # fmt: skip


def draw_policy() -> str:
    """What a policy does, in a circle: watch, alarm, estimate, solve, try."""
    return _svg(
        "A policy watches stages, estimates what is slower, solves anew and tries the answer", 190,
        [
            _box(15, 20, 120, "requests go on", "none"),
            _box(175, 20, 130, "stages are timed", "a"),
            _box(345, 20, 120, "an alarm", "b"),
            _box(345, 85, 120, "who is slower?", "a"), _box(175, 85, 130, "solve for that", "a"),
            _box(15, 85, 120, "try it a while", "c"), _box(15, 145, 120, "better: kept", "c"),
            _box(175, 145, 290, "worse: the estimate learns from it", "none"),
            _arrow((135, 35), (173, 35)), _arrow((305, 35), (343, 35)),
            _arrow((405, 50), (405, 83)),
            _arrow((345, 100), (307, 100)), _arrow((175, 100), (137, 100)),
            _arrow((75, 115), (75, 143)), _arrow((135, 108), (205, 143)),
            _arrow((75, 85), (75, 52)),
        ],
    )  # fmt: skip


def draw_serving() -> str:
    """A query's way: the door, the pool of cores, the answer."""
    return _svg(
        "Queries are refused at the door or share the cores until they are answered", 190,
        [
            _box(10, 30, 90, "query", "none"), _box(140, 20, 110, "in time?", "b", 50),
            _arrow((100, 45), (138, 45)), _arrow((250, 45), (288, 45)),
            _arrow((195, 70), (195, 118)), _box(120, 120, 150, "503, with a reason", "none"),
            _text(195, 170, "when to come back", kind="faint"),
            _box(290, 15, 80, "model A", "a"), _box(370, 15, 50, "B", "c"),
            _box(290, 50, 50, "A", "a"), _box(340, 50, 80, "B", "c"),
            _text(470, 35, "core 0", "end", "faint"), _text(470, 70, "core 1", "end", "faint"),
            _arrow((355, 82), (355, 118)), _box(310, 120, 90, "answer", "none"),
            _text(360, 170, "by the cores it needs", kind="faint"),
        ],
    )  # fmt: skip


DRAWINGS: dict[str, Callable[[], str]] = {
    "gap": draw_gap, "teams": draw_teams, "precision": draw_precision, "policy": draw_policy,
    "serving": draw_serving,
}  # fmt: skip

if __name__ == "__main__":
    write_drawings()
