"""What stands in a page so that its plan can be explored: markup, style, data and scripts.

The markup is hidden until the scripts run, so a reader without them sees the report alone. Data are
JSON that no HTML parser can take for anything else.
"""

from __future__ import annotations

import json
from importlib.resources import files

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.explorer.data import explorer_data, why_not
from tvm_hetero.report.explorer.scripts import page_script, policy_of
from tvm_hetero.report.schedule.html import InteractivePart
from tvm_hetero.report.schedule.palette import colour_families

_MARKUP = """<section id="explorer" hidden><h2>Explore this plan</h2>
<p class="faint">Drag a task to another device, or along time to change its turn. With the keyboard:
left and right go from task to task, up and down move one to another device. An edited plan starts
everything as early as its order allows; the judge looks at it each time. A saved plan is for
<code>tvm-hetero check</code> and <code>tvm-hetero partition --plan</code>.</p>
<div class="toolbar"><button type="button" id="explorer-undo">Undo</button>
<button type="button" id="explorer-reset">Start again</button>
<button type="button" id="explorer-wider">Zoom in</button>
<button type="button" id="explorer-narrower">Zoom out</button>
<button type="button" id="explorer-save">Save plan.json</button>
<button type="button" id="explorer-swap">Edit the other plan</button>
<label class="file">Compare with a file <input type="file" id="explorer-load" accept=".json">
</label></div>
<div class="verdict" id="explorer-verdict" role="status"></div>
<h3>Edited</h3><div class="chart" id="explorer-edited"></div>
<h3 id="explorer-other-name"></h3><div class="chart" id="explorer-other" tabindex="0"
role="group" aria-labelledby="explorer-other-name"></div>
<div class="tables">
<div id="explorer-figures" tabindex="0" role="region" aria-label="figures"></div>
<div id="explorer-moved" tabindex="0" role="region" aria-label="tasks that differ"></div></div>
</section>
"""


def explorer_part(problem: Problem, schedule: Schedule) -> InteractivePart:
    """The part of a page in which a plan can be edited; a sentence where it cannot be."""
    reason = why_not(problem, schedule)
    if reason:
        return InteractivePart(f'<p class="faint">This plan cannot be explored here: {reason}.</p>')
    data = explorer_data(problem, schedule)
    families = colour_families(task.op for task in problem.tasks)
    for row in data["problem"]["tasks"]:
        row["fill"], row["ink"] = families[row["op"]].fill, families[row["op"]].text
    script, text = page_script(), json.dumps(data).replace("<", "\\u003c")
    style = (files(__package__) / "static" / "explorer.css").read_text(encoding="utf-8")
    return InteractivePart(
        f'{_MARKUP}<script type="application/json" id="explorer-data">{text}</script>\n'
        f"<script>{script}</script>",
        style,
        policy_of(script),
    )
