// A plan as a chart: a lane for each device and each link in use, a bar for each execution and hop.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 34;
const BAR = 24;
const TOP = 10;
const WIDTH = 1120;
const MARGIN = 24;

function element(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Where time and lanes are on the picture, px. `seconds` is the length of the time axis, which is
 * `zoom` times as long as the page is wide. */
function axesOf(problem, plan, seconds, zoom) {
  const names = problem.devices.map((device) => printable(device.name));
  const lanes = new Map();
  for (const copy of plan.copies) {
    const key = `${copy.src}>${copy.dst}`;
    if (copy.src >= 0 && copy.dst >= 0 && !lanes.has(key)) {
      lanes.set(key, names.length);
      names.push(`${names[copy.src]} → ${names[copy.dst]}`);
    }
  }
  const short = names.map((name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name));
  const left = 24 + 7 * largest(short.map((name) => name.length), 0);
  const long = (WIDTH - MARGIN - left) * zoom;
  const x = (time) => left + (long * time) / (seconds > 0 ? seconds : 1);
  const time = (px) => ((px - left) / long) * (seconds > 0 ? seconds : 1);
  return { names: short, lanes, left, right: left + long, x, time, bottom: TOP + ROW * names.length };
}

/** The chart of a plan: {svg, axes, bars}, a bar for each execution. */
function drawPlan(problem, plan, seconds, label, zoom) {
  const axes = axesOf(problem, plan, seconds, zoom);
  const [width, height] = [axes.right + MARGIN, axes.bottom + 24];
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = element("svg", { class: "gantt", role: "group", "aria-label": label, ...size });
  axes.names.forEach((name, row) => {
    const band = { class: row % 2 ? "lane" : "lane band", x: 0, y: TOP + ROW * row, width: axes.right, height: ROW };
    svg.append(element("rect", band));
  });
  drawTicks(svg, axes, seconds, 4 * zoom);
  for (const copy of plan.copies) drawHop(svg, problem, axes, copy);
  const bars = plan.executions.map((e) => drawBar(svg, problem, axes, e));
  drawNames(svg, axes);
  return { svg, axes, bars };
}

/** The lanes' names, above all else: where time is scrolled they stay (`keepNames`). */
function drawNames(svg, axes) {
  const group = element("g", {});
  axes.names.forEach((name, row) => {
    const y = TOP + ROW * row;
    const back = { class: row % 2 ? "name" : "name band", x: 0, y, width: axes.left - 4, height: ROW };
    group.append(element("rect", back));
    group.append(element("text", { x: axes.left - 10, y: y + ROW / 2 + 4, "text-anchor": "end" }, name));
  });
  svg.append(group);
}

function keepNames(chart) {
  const svg = chart.querySelector("svg");
  const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
  svg.lastChild.setAttribute("transform", `translate(${chart.scrollLeft * scale} 0)`);
}

function drawTicks(svg, axes, seconds, parts) {
  for (let i = 0; i <= parts; i++) {
    const moment = (seconds * i) / parts;
    const x = axes.x(moment);
    svg.append(element("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: axes.bottom }));
    const anchor = i === parts ? "end" : "middle";
    const text = i === 0 ? "0" : formatSeconds(moment);
    svg.append(element("text", { class: "faint", x, y: axes.bottom + 15, "text-anchor": anchor }, text));
  }
}

function drawHop(svg, problem, axes, copy) {
  const row = axes.lanes.get(`${copy.src}>${copy.dst}`);
  if (row === undefined) return;
  const x = axes.x(copy.start);
  const group = element("g", { class: "bar" });
  group.append(element("title", {}, `${nameOf(problem, copy)}: ${timesOf(copy)}`));
  const place = { x, y: TOP + ROW * row + (ROW - BAR) / 2, width: Math.max(1, axes.x(copy.end) - x), height: BAR };
  group.append(element("rect", { ...place, class: "hop" }));
  svg.append(group);
}

function drawBar(svg, problem, axes, e) {
  const x = axes.x(e.start);
  const width = Math.max(2, axes.x(e.end) - x);
  const task = problem.tasks[e.task];
  const y = TOP + ROW * Math.max(0, e.device) + (ROW - BAR) / 2;
  const group = element("g", { class: "bar" });
  const label = `${nameOf(problem, e)}: ${timesOf(e)}`;
  group.setAttribute("aria-label", label);
  group.append(element("title", {}, label));
  group.append(element("rect", { x, y, width, height: BAR, rx: 3, fill: task ? task.fill : "#a8adb5" }));
  const fits = Math.floor((width - 6) / 6.6);
  const name = task ? printable(task.name) : "?";
  if (fits >= Math.min(name.length, 8)) {
    const shown = name.length > fits ? `${name.slice(0, fits - 1)}…` : name;
    const at = { x: x + width / 2, y: y + BAR / 2 + 4, "text-anchor": "middle", fill: task ? task.ink : "#111111" };
    group.append(element("text", at, shown));
  }
  svg.append(group);
  return group;
}

function timesOf({ start, end }) {
  return `${formatSeconds(start)} to ${formatSeconds(end)}`;
}
