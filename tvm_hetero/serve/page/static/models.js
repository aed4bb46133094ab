// A card a model: how it stands, how fast it answers, and the plan by which it does.

import { colourOf } from "./cores.js";
import { h, legend, show } from "./dom.js";
import { brief, lately, NONE, number, percent, seconds, sum } from "./format.js";
import { latencyChart } from "./latency_chart.js";
import { drawPlan, planPlace } from "./plan.js";
import { rateChart } from "./rate_chart.js";

const STATES = {
  READY: ["good", "Ready"],
  LOADING: ["plain", "Loading"],
  UNLOADING: ["plain", "Unloading"],
  UNAVAILABLE: ["bad", "Not loaded"],
};
const GAP = 28; // between charts (px), as in page.css
const cards = new Map();

function figure(name, value, isBad = false) {
  return h("div", {}, h("dt", {}, name), h("dd", isBad ? { class: "bad" } : {}, value));
}

function head(model, colour) {
  const [kind, state] = STATES[model.state] ?? ["plain", model.state];
  return [
    h("span", { class: `swatch ${colour}` }),
    h("h3", {}, model.name),
    model.version ? h("span", { class: "version" }, `version ${model.version}`) : null,
    h("span", { class: `pill ${kind}` }, state),
    h("span", { class: "slo" }, model.slo === null ? "no SLO" : `SLO ${brief(model.slo)}`),
  ].filter((part) => part !== null);
}

function figures(model) {
  const { latency, slo } = model;
  const judged = model.met + model.missed;
  const rows = [
    figure("answered per second", number(lately(model.answered))),
    figure("half within", seconds(latency.p50)),
    figure("90 % within", seconds(latency.p90)),
    figure("99 % within", seconds(latency.p99), slo !== null && latency.p99 > slo),
    figure("in flight", number(model.pending)),
  ];
  if (slo !== null) {
    rows.push(figure("within SLO", judged ? percent(model.met / judged) : NONE, model.missed > 0));
  }
  if (model.batches) {
    rows.push(
      figure("computed in batches", percent(model.joined / sum(model.answered))),
      figure("queries a batch", number(model.joined / model.batches)),
    );
  }
  if (model.decoder) {
    rows.push(
      figure("tokens per second", number(lately(model.decoder.tokens))),
      figure("first token, half within", seconds(model.decoder.first.p50)),
      figure("between tokens, half within", seconds(model.decoder.between.p50)),
    );
  }
  return rows;
}

/** What to do to see something here. */
function suggestion(model) {
  const decoder = `curl ${location.origin}/v1/completions -H 'Content-Type: application/json' \\\n  -d '{"model": "${model.name}", "prompt": [1, 2, 3], "max_tokens": 16}'`;
  if (model.decoder) {
    return h("div", { class: "try" }, "No request in the last minute. To send one:", h("code", {}, decoder));
  }
  const takes = `curl ${location.origin}/v2/models/${encodeURIComponent(model.name)}`;
  const some = `tvm-hetero load-test ${location.origin} --model ${model.name} --rate 5`;
  return h("div", { class: "try" }, "No request in the last minute. Which inputs it takes:", h("code", {}, takes),
    "To send some of random numbers:", h("code", {}, some));
}

function chart(title, picture) {
  return h("div", {}, h("h4", {}, title), picture);
}

function charts(model, place) {
  const turned = sum(model.turned_away);
  if (!sum(model.answered) && !turned && !sum(model.decoder?.tokens ?? [])) {
    return [suggestion(model)];
  }
  const columns = Math.min(model.decoder ? 3 : 2, Math.max(1, Math.floor(place.clientWidth / 330)));
  place.className = `charts in${columns}`;
  const width = Math.max(240, (place.clientWidth - GAP * (columns - 1)) / columns);
  const rate = rateChart(width, model.answered, model.turned_away, "request");
  const shown = [
    chart("Requests by second", rate),
    chart("Time from request to answer", latencyChart(width, model)),
  ];
  if (turned) {
    shown[0].append(legend([["", "answered"], ["refused", "not answered"]]));
  }
  if (model.decoder) {
    const none = model.decoder.tokens.map(() => 0);
    shown.push(chart("Tokens by second", rateChart(width, model.decoder.tokens, none, "token")));
  }
  return shown;
}

function newCard() {
  const parts = {
    head: h("header"), why: h("p", { class: "why" }), figures: h("dl", { class: "figures" }),
    charts: h("div", { class: "charts" }), plan: planPlace(),
  };
  return { ...parts, card: h("article", { class: "card" }, ...Object.values(parts)) };
}

function drawCard(card, model, colour, isOpen) {
  card.card.className = `card ${colour}`;
  card.card.setAttribute("aria-label", `Model ${model.name}`);
  show(card.head, ...head(model, colour));
  card.why.textContent = model.reason;
  card.why.hidden = !model.reason;
  const takes = model.version !== "";
  card.figures.hidden = card.charts.hidden = !takes;
  if (takes) {
    show(card.figures, ...figures(model));
    show(card.charts, ...charts(model, card.charts));
  }
  drawPlan(card.plan, model, isOpen);
}

/** All cards; each stays the same element, so that what is open stays so. */
export function drawModels(place, { models }) {
  if (!models.length) {
    show(place, h("p", { class: "empty" }, "No model is served. Start the server with one:",
      h("code", {}, "tvm-hetero serve NAME.hetero")));
    return;
  }
  for (const name of [...cards.keys()]) {
    if (!models.some((model) => model.name === name)) {
      cards.get(name).card.remove();
      cards.delete(name);
    }
  }
  for (const model of models) {
    if (!cards.has(model.name)) {
      cards.set(model.name, newCard());
      place.append(cards.get(model.name).card);
    }
    drawCard(cards.get(model.name), model, colourOf(models, model.name), models.length <= 2);
  }
}
