// Where the time of the slowest request went.

import { colourOf } from "./cores.js";
import { h, legend, plot, s, show } from "./dom.js";
import { brief, count, seconds } from "./format.js";

const [HEIGHT, BAR] = [34, 26];

/** One bar: waiting, computing, the rest. */
export function drawSlowest(place, { slowest, models }) {
  if (slowest === null) {
    show(place, h("p", { class: "empty" }, "No request was answered in the last minute."));
    return;
  }
  const rest = Math.max(0, slowest.whole - slowest.queued - slowest.computed);
  const colour = colourOf(models, slowest.model);
  const parts = [
    ["waited", "waited", slowest.queued],
    [`own ${colour}`, "computed", slowest.computed],
    ["rest", "read and written", rest],
  ];
  const width = Math.max(240, place.clientWidth);
  let begin = 0;
  const bars = parts.map(([kind, name, length]) => {
    const wide = (width * length) / slowest.whole;
    const box = { x: begin.toFixed(1), y: 4, width: Math.max(0, wide - 1).toFixed(1), height: BAR };
    begin += wide;
    return s("rect", { class: kind, ...box }, s("title", {}, `${name}: ${seconds(length)}`));
  });
  const words = parts.map(([, name, length]) => `${name} ${seconds(length)}`);
  const slo = slowest.slo === null ? "" : `; the objective is ${brief(slowest.slo)}`;
  const of = slowest.items > 1 ? ` for ${count(slowest.items, "element")}` : "";
  const late = slowest.slo !== null && slowest.whole > slowest.slo;
  show(place,
    h("p", {}, h("b", {}, slowest.model), `: ${seconds(slowest.whole)}${of}`,
      h("span", { class: late ? "wrong" : "help" }, slo)),
    plot(width, HEIGHT, `Time of the slowest request: ${words.join(", ")}.`, ...bars),
    legend(parts.map(([kind], i) => [kind.replace("own ", ""), words[i]])));
}
