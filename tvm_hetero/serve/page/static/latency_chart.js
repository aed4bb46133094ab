// How long requests took: a histogram on a scale of powers of ten, with the objective drawn in.

import { label, plot, s } from "./dom.js";
import { brief, count, seconds } from "./format.js";

const [HEIGHT, TOP, FOOT, SIDE] = [132, 30, 20, 12];
const MOST_BARS = 44;

/** Bins put together, so that there are not too many: [begin, end, count]. */
function merge(bins, least, most) {
  const decades = Math.log10(most / least);
  const each = Math.max(1, Math.ceil((decades * 20) / MOST_BARS));
  const groups = new Map();
  for (const [begin, end, value] of bins) {
    const place = Math.floor(Math.round(Math.log10(end) * 20) / each);
    const group = groups.get(place) ?? [begin, end, 0];
    groups.set(place, [Math.min(group[0], begin), Math.max(group[1], end), group[2] + value]);
  }
  return [...groups.values()];
}

/** Begin and end of the scale: all bins and the objective, a third of a decade at least. */
function scaleOf(bins, slo) {
  const ends = [...bins.flatMap(([begin, end]) => [begin, end]), ...(slo === null ? [] : [slo * 1.12])];
  const [least, most] = [Math.min(...ends) / 1.12, Math.max(...ends) * 1.12];
  return most / least < 4 ? [least / 1.6, most * 1.6] : [least, most];
}

/** Times such as 1, 2 and 5 ms that fit between two. */
function ticks(least, most, room) {
  const found = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power += 1) {
    found.push(...[1, 2, 5].map((factor) => factor * 10 ** power));
  }
  const inside = found.filter((value) => value >= least && value <= most);
  const ones = inside.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-6);
  return inside.length * 52 <= room || ones.length < 2 ? inside : ones;
}

function mark(x, text, kind, y, isLeft) {
  return s("g", { class: kind },
    s("line", { x1: x.toFixed(1), x2: x.toFixed(1), y1: y - 8, y2: HEIGHT - FOOT }),
    label(x + (isLeft ? -5 : 5), y, text, { "text-anchor": isLeft ? "end" : "start" }));
}

function inWords(latency, slo, total) {
  const parts = `${count(total, "request")}; half within ${seconds(latency.p50)}, 99 of 100 within ${seconds(latency.p99)}`;
  return slo === null ? `${parts}.` : `${parts}; the objective is ${brief(slo)}.`;
}

/** The histogram of a model's last minute. */
export function latencyChart(width, { bins, latency, slo }) {
  const total = bins.reduce((all, bin) => all + bin[2], 0);
  if (!total) {
    return plot(width, HEIGHT, "No request was answered.",
      label(width / 2, HEIGHT / 2, "no request was answered", { class: "small", "text-anchor": "middle" }));
  }
  const [least, most] = scaleOf(bins, slo);
  const floor = HEIGHT - FOOT;
  const x = (value) => SIDE + ((width - 2 * SIDE) * Math.log(value / least)) / Math.log(most / least);
  const bars = merge(bins, least, most);
  const highest = Math.max(...bars.map((bar) => bar[2]));
  const parts = [];
  if (slo !== null) {
    const box = { x: x(slo).toFixed(1), width: (width - SIDE - x(slo)).toFixed(1) };
    parts.push(s("rect", { class: "late", y: TOP, height: floor - TOP, ...box }));
  }
  for (const [begin, end, value] of bars) {
    const high = Math.max(1.5, ((floor - TOP - 4) * value) / highest);
    const box = { x: x(begin).toFixed(1), width: Math.max(1, x(end) - x(begin) - 1).toFixed(1) };
    parts.push(s("rect", { class: "own", y: (floor - high).toFixed(1), height: high.toFixed(1), ...box },
      s("title", {}, `${seconds(begin)} to ${seconds(end)}: ${count(value, "request")}`)));
  }
  parts.push(s("line", { class: "base", x1: SIDE, x2: width - SIDE, y1: floor, y2: floor }));
  for (const value of ticks(least, most, width)) {
    parts.push(label(x(value), HEIGHT - 5, brief(value), { class: "small", "text-anchor": "middle" }));
  }
  const [half, most99] = [x(latency.p50), x(latency.p99)];
  parts.push(mark(half, "half", "mark", 24, half > 40), mark(most99, "99 %", "mark", 24, most99 > width - 40));
  if (slo !== null) {
    parts.push(mark(x(slo), `SLO ${brief(slo)}`, "slo", 10, x(slo) > width - 90));
  }
  return plot(width, HEIGHT, inWords(latency, slo, total), ...parts);
}
