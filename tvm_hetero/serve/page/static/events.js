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
  return h("li", {},
    h("time", { datetime: new Date(event.at * 1000).toISOString() }, moment(event.at, now)),
    h("span", { class: `pill ${kind}` }, text),
    h("p", {}, event.model ? h("b", {}, `${event.model}: `) : "", event.text));
}

/** A list, drawn again only when there is something new. */
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
  const list = { class: "events", tabindex: 0, "aria-labelledby": "events-title" };
  show(place, h("ol", list, ...events.map((event) => row(event, now))));
}
