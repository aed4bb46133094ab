// What was not answered: how often, why, and what helps.

import { h, show } from "./dom.js";

const REASONS = {
  queue_full: ["queue full", "More requests wait than the model may have waiting. Send fewer, or give it more cores."],
  deadline: ["deadline", "It could not have been done in time. Allow more time, or give the model more cores."],
  draining: ["shutting down", "The server is ending. Send it to another one."],
  not_ready: ["not ready", "The model is not loaded. See its card."],
  too_large: ["too large", "The request has more bytes than are allowed."],
  streams: ["streams", "One client has too many streams open at once."],
};
const LOST = {
  failed: ["failed", "A kernel failed. The server's log says which."],
  deadline: ["late", "Its deadline came before it was done."],
};

function row(model, text, help, value) {
  return h("tr", {}, h("td", { class: "name" }, model), h("td", {}, text, h("div", { class: "help" }, help)),
    h("td", { class: "count" }, value.toLocaleString("en")));
}

function rowsOf(model) {
  const list = (counts, words, kind) => Object.entries(counts).map(([reason, value]) => {
    const [text, help] = words[reason] ?? [reason, ""];
    return [value, row(model.name, `${kind}${text}`, help, value)];
  });
  return [...list(model.refused, REASONS, "refused: "), ...list(model.lost, LOST, "")];
}

/** A table by model and reason, the most frequent first. */
export function drawTrouble(place, { models }) {
  const rows = models.flatMap(rowsOf).sort((a, b) => b[0] - a[0]).map(([, element]) => element);
  if (!rows.length) {
    show(place, h("p", { class: "empty" }, "Nothing was refused, and nothing failed."));
    return;
  }
  const names = ["Model", "Reason"].map((text) => h("th", { scope: "col" }, text));
  show(place, h("table", {},
    h("thead", {}, h("tr", {}, ...names, h("th", { scope: "col", class: "count" }, "Requests"))),
    h("tbody", {}, ...rows)));
}
