// The page's plan, edited: drag or keys move a task, the judge answers, two plans are compared.

const data = JSON.parse(document.getElementById("explorer-data").textContent);
const problem = readProblem(data.problem);
const solved = readPlan(problem, data.schedule);
const state = { plan: solved, past: [], other: solved, otherName: "the plan of this page", focus: 0, drag: null, note: "", zoom: 1 };
const MOST_ZOOM = 64;
const part = (name) => document.getElementById(`explorer-${name}`);

/** Draw all of it again; `focused` keeps the keyboard where it was. */
function render(focused) {
  const seconds = largest([state.plan, state.other].map((plan) => lastEnd([...plan.executions, ...plan.copies])), 0);
  const drawn = drawPlan(problem, state.plan, seconds, "edited plan", state.zoom);
  part("edited").replaceChildren(drawn.svg);
  drawn.bars.forEach((bar, i) => makeMovable(drawn, bar, i));
  state.focus = Math.min(state.focus, drawn.bars.length - 1);
  drawn.bars[state.focus].setAttribute("tabindex", "0");
  if (focused) drawn.bars[state.focus].focus();
  part("other-name").textContent = `Compared with ${state.otherName}`;
  part("other").replaceChildren(drawPlan(problem, state.other, seconds, state.otherName, state.zoom).svg);
  const head = ["", "edited", state.otherName];
  part("figures").replaceChildren(tableOf(head, figureRows(problem, state.plan, state.other)));
  const moved = movedRows(problem, state.plan, state.other);
  part("moved").replaceChildren(moved.length ? tableOf(["task", "edited", state.otherName], moved) : "No task is on another device.");
  ["edited", "other"].map(part).forEach(keepNames);
  part("undo").disabled = state.past.length === 0;
  part("wider").disabled = state.zoom >= MOST_ZOOM;
  part("narrower").disabled = state.zoom <= 1;
  sayVerdict();
}

function sayVerdict() {
  const violations = judgeSchedule(problem, state.plan);
  const { value, lowerBound } = state.plan;
  const what = `${problem.kind} ${formatValue(problem, value)}`;
  const lines = violations.slice(0, 10).map((each) => `Rule ${each.rule}: ${printable(each.text)}`);
  const compared = `${comparedText(value, state.other.value)} ${state.otherName} (${formatValue(problem, state.other.value)})`;
  const bound = lowerBound > 0 ? `; no plan is below ${formatValue(problem, lowerBound)}` : "";
  const first = violations.length ? `Not valid; ${what}.` : `Valid: ${what}, ${compared}${bound}.`;
  const verdict = part("verdict");
  verdict.className = `verdict ${violations.length ? "bad" : "good"}`;
  verdict.replaceChildren(...[first, ...lines, state.note].filter(Boolean).map((text) => {
    const line = document.createElement("div");
    line.textContent = text;
    return line;
  }));
}

/** Move an execution, unless that is impossible; then say why. */
function tryMove(place, device, start) {
  const moving = state.plan.executions[place];
  const able = devicesFor(problem, state.plan, place);
  state.note = "";
  if (!able.includes(device)) {
    const names = able.map((d) => problem.devices[d].name).join(", ");
    state.note = printable(`${problem.devices[device].name} cannot run ${problem.tasks[moving.task].name}; it can run on ${names}.`);
  } else {
    try {
      keep(movePlan(problem, state.plan, place, device, start));
      state.focus = state.plan.executions.findIndex((e) => e.task === moving.task && e.elements[0] === moving.elements[0]);
    } catch (error) {
      if (!(error instanceof Impossible)) throw error;
      state.note = printable(`That is impossible: ${error.message}.`);
    }
  }
  render(true);
}

function keep(plan) {
  state.past.push(state.plan);
  state.plan = plan;
}

function makeMovable({ svg, axes, bars }, bar, place) {
  bar.setAttribute("role", "button");
  bar.setAttribute("tabindex", "-1");
  bar.classList.add("movable");
  bar.addEventListener("keydown", (event) => onKey(event, bars, place));
  bar.addEventListener("focus", () => {
    bars[state.focus].setAttribute("tabindex", "-1");
    state.focus = place;
    bar.setAttribute("tabindex", "0");
  });
  bar.addEventListener("pointerdown", (event) => {
    state.drag = { place, bar, at: pointOf(svg, event), moved: { x: 0, y: 0 } };
    bar.setPointerCapture(event.pointerId);
    bar.classList.add("dragged");
  });
  bar.addEventListener("pointermove", (event) => {
    if (!state.drag || state.drag.place !== place) return;
    const { x, y } = pointOf(svg, event);
    state.drag.moved = { x: x - state.drag.at.x, y: y - state.drag.at.y };
    bar.setAttribute("transform", `translate(${state.drag.moved.x} ${state.drag.moved.y})`);
  });
  // Else a finger scrolls the page: touch-action is not heeded inside of a picture.
  bar.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  bar.addEventListener("pointerup", () => drop(axes, place));
  bar.addEventListener("pointercancel", cancelDrag);
}

/** Where an event is on the picture, which the page may show smaller. */
function pointOf(svg, event) {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}

/** A bar that is let go: its lane is the device, and where it begins its turn among the others. */
function drop(axes, place) {
  if (!state.drag || state.drag.place !== place) return;
  const { at, moved } = state.drag;
  cancelDrag();
  const e = state.plan.executions[place];
  const lane = Math.floor((at.y + moved.y - TOP) / ROW);
  const isLater = Math.abs(moved.x) > 8;
  if (lane < 0 || lane >= problem.devices.length || (lane === e.device && !isLater)) return;
  tryMove(place, lane, isLater ? Math.max(0, axes.time(axes.x(e.start) + moved.x)) : undefined);
}

function cancelDrag() {
  if (!state.drag) return;
  state.drag.bar.classList.remove("dragged");
  state.drag.bar.removeAttribute("transform");
  state.drag = null;
}

/** Up and down: the next device that can run it; left and right: the next bar in time. */
function onKey(event, bars, place) {
  const turn = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Escape") cancelDrag();
  if (turn === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const { executions } = state.plan;
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const able = devicesFor(problem, state.plan, place);
    const next = able[able.indexOf(executions[place].device) + turn];
    if (next !== undefined) tryMove(place, next);
    return;
  }
  const order = [...executions.keys()].sort(byNumbers((i) => [executions[i].start, executions[i].end, i]));
  const next = order[order.indexOf(place) + turn];
  if (next !== undefined) bars[next].focus();
}

/** Draw time longer or shorter; what was in the middle stays there. */
function zoomBy(factor) {
  const chart = part("edited");
  const middle = (chart.scrollLeft + chart.clientWidth / 2) / chart.scrollWidth;
  state.zoom *= factor;
  render();
  chart.scrollLeft = middle * chart.scrollWidth - chart.clientWidth / 2;
}

function savePlan() {
  const text = JSON.stringify(planDocument(problem, state.plan), null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "plan.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function loadPlan(event) {
  const [file] = event.target.files;
  if (!file) return;
  state.note = "";
  try {
    const plan = readPlan(problem, JSON.parse(await file.text()));
    const violations = judgeSchedule(problem, plan);
    if (violations.length) throw new Error(`rule ${violations[0].rule}: ${violations[0].text}`);
    state.other = plan;
    state.otherName = printable(file.name);
  } catch (error) {
    state.note = printable(`${file.name} is no valid plan of this problem: ${error.message}`);
  }
  event.target.value = "";
  render();
}

part("undo").addEventListener("click", () => {
  if (state.past.length) state.plan = state.past.pop();
  state.note = "";
  render();
});
part("reset").addEventListener("click", () => {
  if (state.plan !== solved) keep(solved);
  state.note = "";
  render();
});
part("swap").addEventListener("click", () => {
  const edited = state.plan;
  keep(state.other);
  [state.other, state.otherName] = [edited, "the plan edited before"];
  state.note = "";
  render();
});
part("save").addEventListener("click", savePlan);
part("wider").addEventListener("click", () => zoomBy(2));
part("narrower").addEventListener("click", () => zoomBy(0.5));
// Two plans are compared at the same moment.
for (const [one, two] of [["edited", "other"], ["other", "edited"]]) {
  part(one).addEventListener("scroll", () => {
    part(two).scrollLeft = part(one).scrollLeft;
    keepNames(part(one));
  });
}
part("load").addEventListener("change", loadPlan);
document.getElementById("explorer").hidden = false;
render();
