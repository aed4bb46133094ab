// Elements, made of text alone: nothing that a model is called can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element with attributes and children (elements or texts). */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** An SVG text. */
export function label(x, y, text, attributes = {}) {
  return s("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, text);
}

/** A chart as wide as its place; `alt` says in words what it shows. */
export function plot(width, height, alt, ...children) {
  const size = { viewBox: `0 0 ${width} ${height}`, height };
  return s("svg", { class: "plot", role: "img", "aria-label": alt, ...size }, ...children);
}

/** Put children into a place, unless it shows them already. */
export function show(place, ...children) {
  place.replaceChildren(...children.filter((child) => child !== null));
}

/** Change a text only when it is another one: screen readers tell each change. */
export function say(place, text) {
  if (place.textContent !== text) {
    place.textContent = text;
  }
}

/** A list of what colours mean: rows of [class, text]. */
export function legend(rows) {
  const items = rows.map(([kind, text]) => h("li", {}, h("span", { class: `swatch ${kind}` }), text));
  return h("ul", { class: "legend" }, ...items);
}
