// A lane a core: by second, how much of it which model had. Now is at the right.

import { label, legend, plot, s, show } from "./dom.js";
import { percent, sum } from "./format.js";

const [ROW, BAR, TOP, LEFT] = [26, 20, 4, 58];
const MINUTE = 60;

/** The class that gives a model its colour, by its place among all. */
export function colourOf(models, name) {
  const place = models.findIndex((model) => model.name === name);
  return place < 0 ? "free" : `own${place % 6}`;
}

/** Seconds of a lane that a model had. */
function had(core, name) {
  return sum(core.seconds.map((second) => second[name] ?? 0));
}

/** The stacked shares of one second, from the bottom up in the order of the models. */
function column(models, core, row, x, width, second, ago) {
  const floor = TOP + ROW * row + (ROW + BAR) / 2;
  let below = 0;
  const present = models.filter(({ name }) => second[name]);
  const bars = present.map(({ name }) => {
    const high = BAR * Math.min(1 - below / BAR, second[name]);
    below += high;
    const box = { x: x.toFixed(1), width: (width + 0.3).toFixed(1), y: (floor - below).toFixed(1) };
    return s("rect", { class: `own ${colourOf(models, name)}`, height: high.toFixed(1), ...box });
  });
  const words = present.map(({ name }) => `${name} ${percent(second[name])}`).join(", ");
  return s("g", {}, s("title", {}, `core ${core.core}, ${ago} s ago: ${words}`), ...bars);
}

function lane(models, core, row, width) {
  const step = (width - LEFT) / MINUTE;
  const middle = TOP + ROW * row + ROW / 2;
  const ground = { x: LEFT, y: middle - BAR / 2, width: (width - LEFT).toFixed(1), height: BAR };
  const columns = core.seconds.map((second, i) =>
    Object.keys(second).length
      ? column(models, core, row, LEFT + step * i, step, second, MINUTE - i)
      : null);
  return s("g", {},
    label(LEFT - 10, middle + 4, `core ${core.core}`, { "text-anchor": "end" }),
    s("rect", { class: "free", ...ground }), ...columns);
}

function axis(width, bottom) {
  const step = width < 520 ? 20 : 10;
  const marks = [];
  for (let ago = 0; ago <= MINUTE; ago += step) {
    const anchor = ago === 0 ? "end" : ago === MINUTE ? "start" : "middle";
    const text = ago === 0 ? "now" : `${ago} s ago`;
    const x = width - ((width - LEFT) * ago) / MINUTE;
    marks.push(label(x, bottom + 15, text, { class: "small", "text-anchor": anchor }));
  }
  return marks;
}

/** Each model's share of all cores in the minute; what is left was free. */
function shares(models, cores) {
  const all = cores.length * MINUTE;
  const rows = models.map((model) => [
    colourOf(models, model.name), model.name, sum(cores.map((core) => had(core, model.name))) / all]);
  const free = Math.max(0, 1 - sum(rows.map((row) => row[2])));
  return [...rows, ["free", "free", free]];
}

/** All lanes, and what their colours mean. */
export function drawCores(place, { cores, models }) {
  const width = Math.max(280, place.clientWidth);
  const bottom = TOP + ROW * cores.length;
  const lanes = cores.map((core, row) => lane(models, core, row, width));
  const rows = shares(models, cores).map(([kind, name, share]) => [kind, `${name}, ${percent(share)}`]);
  const alt = `Of ${cores.length} cores in the last minute: ${rows.map((row) => row[1]).join("; ")}.`;
  show(place, plot(width, bottom + 20, alt, ...lanes, ...axis(width, bottom)), legend(rows));
}
