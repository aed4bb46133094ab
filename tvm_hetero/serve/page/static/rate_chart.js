// Counts by second as bars, the last minute; what was not answered stands on what was.

import { label, plot, s } from "./dom.js";
import { count, number } from "./format.js";

const [HEIGHT, TOP, FOOT, LEFT] = [132, 8, 20, 38];

/** A round number at or above a value: 1, 2, 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return power * [1, 2, 5, 10].find((factor) => power * factor >= value);
}

function bar(kind, x, wide, y, high, title) {
  const box = { x: x.toFixed(1), y: y.toFixed(1), width: wide.toFixed(1), height: high.toFixed(1) };
  return s("rect", { class: kind, ...box }, s("title", {}, title));
}

/** Bars of `good` in the model's colour and of `bad` above them. */
export function rateChart(width, good, bad, noun) {
  const most = roundUp(Math.max(1, ...good.map((value, i) => value + bad[i])));
  const [floor, step] = [HEIGHT - FOOT, (width - LEFT) / good.length];
  const y = (value) => floor - ((floor - TOP) * value) / most;
  const parts = [];
  for (const value of most === 1 ? [0, 1] : [0, most / 2, most]) {
    parts.push(
      s("line", { class: value ? "grid" : "base", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      label(LEFT - 6, y(value) + 4, number(value), { class: "small", "text-anchor": "end" }));
  }
  good.forEach((value, i) => {
    const [x, wide, ago] = [LEFT + step * i, Math.max(1, step - 1), `${good.length - i} s ago`];
    if (value) {
      parts.push(bar("own", x, wide, y(value), floor - y(value), `${ago}: ${count(value, noun)}`));
    }
    if (bad[i]) {
      const top = y(value + bad[i]);
      parts.push(bar("refused", x, wide, top, y(value) - top, `${ago}: ${bad[i]} not answered`));
    }
  });
  parts.push(
    label(LEFT, HEIGHT - 5, "60 s ago", { class: "small" }),
    label(width, HEIGHT - 5, "now", { class: "small", "text-anchor": "end" }));
  const peak = Math.max(...good);
  return plot(width, HEIGHT, `Bars of the last 60 seconds; at most ${count(peak, noun)} in one.`, ...parts);
}
