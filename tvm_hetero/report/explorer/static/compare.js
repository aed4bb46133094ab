// Two plans beside each other: what they are worth, how busy devices are, which tasks differ.

const MOST_ROWS = 200;

function formatValue(problem, value) {
  if (problem.kind === "energy") return `${Number(value.toPrecision(4))} J`;
  if (problem.kind === "cost") return `${Number(value.toPrecision(4))}`;
  return formatSeconds(value);
}

/** `4.0 % more than ...`; of what costs nothing no share can be said. */
function comparedText(value, other) {
  if (value === other) return "as much as";
  if (!(other > 0)) return value > other ? "more than" : "less than";
  const share = Math.abs(value / other - 1) * 100;
  return `${share.toFixed(share < 10 ? 2 : 1)} % ${value > other ? "more than" : "less than"}`;
}

/** Rows of cells: the two values, then what each device is busy with, s. */
function figureRows(problem, plan, other) {
  const busy = [plan, other].map((each) => busyTimes(problem, readable(problem, each.executions), readableCopies(problem, each.copies)));
  const rows = [[problem.kind, formatValue(problem, plan.value), formatValue(problem, other.value)]];
  problem.devices.forEach((device, d) => {
    const cells = busy.map((each) => (each.has(`device ${d}`) ? formatSeconds(each.get(`device ${d}`)) : "unused"));
    rows.push([`${printable(device.name)} busy`, ...cells]);
  });
  return rows;
}

function readable(problem, executions) {
  return executions.filter((e) => e.task >= 0 && problem.tasks[e.task].cost.has(e.device));
}

function readableCopies(problem, copies) {
  return copies.filter((c) => c.tensor >= 0 && c.src >= 0 && c.dst >= 0);
}

/** [task, device here, device there] of all that is on another device. */
function movedRows(problem, plan, other) {
  const there = new Map();
  for (const e of other.executions) e.elements.forEach((n) => there.set(`${e.task}|${n}`, e.device));
  const rows = [];
  const name = (device) => (problem.devices[device] ? printable(problem.devices[device].name) : "?");
  for (const e of plan.executions) {
    const found = new Set(e.elements.map((n) => there.get(`${e.task}|${n}`)));
    if (found.size === 1 && found.has(e.device)) continue;
    const task = problem.tasks[e.task] ? printable(problem.tasks[e.task].name) : "?";
    const elements = problem.batch > 1 ? ` [${e.elements}]` : "";
    rows.push([`${task}${elements}`, name(e.device), [...found].map(name).join(", ")]);
  }
  return rows;
}

/** A table element with a head of three columns. */
function tableOf(head, rows) {
  const table = document.createElement("table");
  const line = (cells, tag, where) => {
    const row = document.createElement("tr");
    cells.forEach((text) => {
      const cell = document.createElement(text ? tag : "td");  // no heading without words
      cell.textContent = text;
      row.append(cell);
    });
    where.append(row);
  };
  const [top, body] = [document.createElement("thead"), document.createElement("tbody")];
  line(head, "th", top);
  rows.slice(0, MOST_ROWS).forEach((cells) => line(cells, "td", body));
  if (rows.length > MOST_ROWS) line([`${rows.length - MOST_ROWS} more`, "", ""], "td", body);
  table.append(top, body);
  return table;
}
