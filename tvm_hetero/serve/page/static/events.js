// What happened to the server, the newest first.

import { h, show } from "./dom.js";
import { moment } from "./format.js";

const KINDS = {
  model: ["plain", "Model"],
  interference: ["bad", "Interference"],
  switch: ["good", "Switch"],
  lifecycle: ["plain", "Server"],
};

function row(event, now) {
  const [kind, text] = KINDS[event.kind] ?? ["plain", event.kind];
  return h("tr", {},
    h("td", { class: "when" }, h("time", { datetime: new Date(event.at * 1000).toISOString() }, moment(event.at, now))),
    h("td", {}, h("span", { class: `pill ${kind}` }, text)),
    h("td", {}, event.model ? h("b", {}, `${event.model}: `) : "", event.text));
}

/** A table, drawn again only when there is something new. */
export function drawEvents(place, { events, now }) {
  const newest = events.length ? `${events[0].at} ${events.length}` : "none";
  if (place.dataset.newest === newest) {
    return;
  }
  place.dataset.newest = newest;
  if (!events.length) {
    show(place, h("p", { class: "empty" }, "Nothing yet."));
    return;
  }
  const names = ["Time", "What", "Details"].map((text) => h("th", { scope: "col" }, text));
  show(place, h("table", {}, h("thead", {}, h("tr", {}, ...names)),
    h("tbody", {}, ...events.map((event) => row(event, now)))));
}
