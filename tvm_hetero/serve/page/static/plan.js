// The picture of a model's plan, fetched when it is looked at and again when there is another plan.

import { h, show } from "./dom.js";
import { getJson } from "./stream.js";

/** Where a plan is shown. */
export function planPlace() {
  return h("details", { class: "plan" }, h("summary", {}, "Plan"), h("div", {}));
}

/** The picture as elements. It is the server's own; what a script would do in it is forbidden. */
function parse(svg, alt) {
  const text = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ');
  const picture = document.importNode(
    new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  picture.setAttribute("aria-label", alt);
  return picture;
}

function fill(body, name, plan) {
  const rows = plan.figures.map(([label, value, note]) =>
    h("div", {}, h("dt", {}, label), h("dd", {}, value), h("dt", {}, note)));
  const alone = "It runs on one device alone, which was measured to be faster than this plan.";
  const alt = `The plan of ${name}: ${plan.proof}. ${plan.bottleneck}`;
  show(body,
    plan.alone ? h("p", { class: "proof" }, alone) : null,
    h("dl", { class: "figures" }, ...rows),
    h("p", { class: "proof" }, plan.comparison ? `${plan.bottleneck} Beside one device alone: ${plan.comparison}.` : plan.bottleneck),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Chart of the plan of ${name}` },
      parse(plan.svg, alt)));
}

async function fetchPlan(place, model) {
  const [heading, body] = place.children;
  place.dataset.shown = String(model.plan);
  try {
    const plan = await getJson(`/page/plans/${encodeURIComponent(model.name)}`);
    show(heading, h("b", {}, "Plan"), `: ${plan.proof}`);
    fill(body, model.name, plan);
  } catch (error) {
    delete place.dataset.shown;
    show(body, h("p", { class: "proof" }, `The plan could not be fetched: ${error.message}`));
  }
}

/** Show the plan, if it is another one than before. */
export function drawPlan(place, model, isOpen) {
  place.hidden = model.plan === null;
  if (place.dataset.shown === undefined && isOpen && !place.dataset.touched) {
    place.open = true;
  }
  place.dataset.touched = "yes";
  if (model.plan !== null && place.dataset.shown !== String(model.plan)) {
    fetchPlan(place, model);
  }
}
