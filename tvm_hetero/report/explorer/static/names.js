// Names in words. They come from model files: control characters, and marks that turn the reading
// direction, are written out; the page puts text in as text, never as HTML.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function printable(text) {
  return String(text).replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** An execution or copy in words, without times. */
function nameOf(problem, activity) {
  const named = (rows, i) => printable(rows[i] ? rows[i].name : "?");
  const elements = problem.batch > 1 ? ` [${activity.elements.slice(0, 8)}]` : "";
  if ("task" in activity) return `task ${named(problem.tasks, activity.task)}${elements} on ${named(problem.devices, activity.device)}`;
  const ends = [activity.src, activity.dst].map((end) => named(problem.devices, end));
  return `copy of ${named(problem.tensors, activity.tensor)}${elements} from ${ends.join(" to ")}`;
}

/** A device, exclusive link or core of teams, by its key. */
function resourceName(problem, what) {
  const at = what.indexOf(" ");
  const [kind, rest] = [what.slice(0, at), what.slice(at + 1)];
  if (kind === "device") return `device ${problem.devices[Number(rest)].name}`;
  if (kind === "core") return `core ${rest.slice(rest.lastIndexOf("|") + 1)}`;
  return `link ${rest.split(">").map((end) => problem.devices[Number(end)].name).join(" to ")}`;
}

const UNITS = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

/** A duration with three significant digits, as Python's format_seconds. */
function formatSeconds(seconds) {
  if (!(Math.abs(seconds) >= 1e-12 && Math.abs(seconds) < 1e6)) return `${Number(seconds.toPrecision(3))} s`;
  const [unit, factor] = UNITS.find(([, size]) => Math.abs(seconds) >= 0.9995 * size) || UNITS[3];
  return `${(seconds / factor).toPrecision(3)} ${unit}`;
}
