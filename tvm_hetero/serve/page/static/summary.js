// The figures at the top: is all well, and how much is going on?

import { h, show } from "./dom.js";
import { count, lately, NONE, number, percent, sum } from "./format.js";

function tile(name, value, unit, note, isBad = false) {
  return h(
    "div",
    {},
    h("dt", {}, name),
    h("dd", {},
      h("div", { class: isBad ? "number bad" : "number" }, value,
        unit ? h("span", { class: "unit" }, ` ${unit}`) : null),
      h("div", { class: "note" }, note)),
  );
}

function objectives(models) {
  const [met, missed] = [sum(models.map((m) => m.met)), sum(models.map((m) => m.missed))];
  if (met + missed) {
    const note = `${count(missed, "request")} of ${(met + missed).toLocaleString("en")} missed`;
    return tile("Within SLO", percent(met / (met + missed)), "", note, missed > 0);
  }
  const isSet = models.some((model) => model.slo !== null);
  return tile("Within SLO", NONE, "", isSet ? "no request in the last minute" : "set one: --slo NAME=20ms");
}

function slowestOf(models) {
  const known = models.filter((model) => model.latency.p99 !== null);
  return known.sort((a, b) => b.latency.p99 - a.latency.p99)[0];
}

/** One tile for each figure. */
export function drawSummary(place, { models }) {
  const refused = sum(models.map((model) => sum(Object.values(model.refused))));
  const lost = sum(models.map((model) => sum(Object.values(model.lost))));
  const decoders = models.filter((model) => model.decoder !== null);
  const rate = sum(models.map((model) => lately(model.answered)));
  const waiting = sum(models.map((model) => model.pending));
  const last = sum(models.map((model) => sum(model.answered)));
  const tiles = [
    tile("Answered", number(rate), "/s", `${count(last, "request")} in the last minute`),
    objectives(models),
    tile("In flight", number(waiting), "", "waiting or being computed"),
    tile("Refused", number(refused), "", "in the last minute", refused > 0),
  ];
  if (lost) {
    tiles.push(tile("Failed or late", number(lost), "", "in the last minute", true));
  }
  if (decoders.length) {
    const tokens = sum(decoders.map((model) => lately(model.decoder.tokens)));
    tiles.push(tile("Tokens", number(tokens), "/s", "written by decoders"));
  }
  const worst = slowestOf(models);
  if (worst && models.length > 1) {
    tiles.push(tile("Slowest model", worst.name, "", "by its 99th percentile"));
  }
  show(place, ...tiles);
}
