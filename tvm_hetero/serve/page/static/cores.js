// A lane a core: which model had it, in the last minute. Now is at the right.

import { h, label, legend, plot, s, show } from "./dom.js";
import { percent, seconds, sum } from "./format.js";

const [ROW, BAR, TOP, LEFT] = [26, 18, 4, 58];
const MINUTE = 60;

/** The class that gives a model its colour, by its place among all. */
export function colourOf(models, name) {
  const place = models.findIndex((model) => model.name === name);
  return place < 0 ? "idle" : `own${place % 6}`;
}

function span(models, lane, row, x, [model, begin, end]) {
  const [left, right] = [x(Math.min(MINUTE, begin)), x(end)];
  const width = Math.max(0.5, right - left);
  const title = `core ${lane.core}: ${model ?? "idle"}, ${seconds(begin - end)}`;
  const box = { x: left.toFixed(1), y: TOP + ROW * row + (ROW - BAR) / 2, width: width.toFixed(1) };
  const kind = model === null ? "idle" : `own ${colourOf(models, model)}`;
  return s("rect", { class: kind, height: BAR, ...box }, s("title", {}, title));
}

function axis(width, x, bottom) {
  const step = width < 520 ? 20 : 10;
  const marks = [];
  for (let ago = 0; ago <= MINUTE; ago += step) {
    const anchor = ago === 0 ? "end" : ago === MINUTE ? "start" : "middle";
    const text = ago === 0 ? "now" : `${ago} s ago`;
    marks.push(label(x(ago), bottom + 15, text, { class: "small", "text-anchor": anchor }));
  }
  return marks;
}

function inWords(models, cores) {
  const parts = models.map(({ name }) => {
    const now = cores.filter((core) => core.spans.at(-1)?.[0] === name).length;
    return `${name} has ${now}`;
  });
  return `Of ${cores.length} cores, now: ${parts.join(", ")}.`;
}

/** How much of the minute's core time a model had. */
function shareOf(cores, name) {
  const all = cores.flatMap((core) => core.spans);
  const length = (spans) => sum(spans.map(([, begin, end]) => begin - end));
  return length(all) ? length(all.filter((each) => each[0] === name)) / length(all) : 0;
}

/** The lanes, or why there are none. */
export function drawCores(place, { cores, models }) {
  if (cores === null) {
    show(place, h("p", { class: "empty" },
      "Cores are not shared among models: each keeps to the cores of its own plan, which is drawn with the model."));
    return;
  }
  const width = Math.max(280, place.clientWidth);
  const x = (ago) => width - ((width - LEFT) * ago) / MINUTE;
  const bottom = TOP + ROW * cores.length;
  const names = cores.map((core, row) =>
    label(LEFT - 10, TOP + ROW * row + ROW / 2 + 4, `core ${core.core}`, { "text-anchor": "end" }));
  const lines = cores.map((core, row) => {
    const y = TOP + ROW * row + ROW / 2;
    return s("line", { class: "grid", x1: LEFT, x2: width, y1: y, y2: y });
  });
  const spans = cores.flatMap((core, row) => core.spans.map((each) => span(models, core, row, x, each)));
  const rows = models.map((model) => [
    colourOf(models, model.name), `${model.name}, ${percent(shareOf(cores, model.name))}`]);
  show(place,
    plot(width, bottom + 20, inWords(models, cores), ...names, ...lines, ...spans, ...axis(width, x, bottom)),
    legend([...rows, ["idle", `idle, ${percent(shareOf(cores, null))}`]]));
}
