// Rules 3, 5 and 8: tensors are copied where they are read, in time, and nowhere else; stages.

/** Rules 3 and 5: follow the hops from the makers of tensors to their readers. */
function judgeInputs(judged) {
  const { problem, executions, makers, report, tolerance, steady } = judged;
  const routes = { ...judged, copies: new Map(), judgedHops: new Set(), arrivals: new Map() };
  for (const { copy, made } of judged.hops) {
    const key = `${copy.tensor}|${made}|${copy.src}|${copy.dst}`;
    if (routes.copies.has(key)) report.add(3, `${nameOf(problem, copy)}: made more than once`, 1);
    else routes.copies.set(key, copy);
  }
  for (const e of executions) {
    for (const tensor of problem.tasks[e.task].inputs) {
      const found = e.elements.map((n) => makers.get(`${problem.tensors[tensor].src}|${n}`));
      const made = [...new Set(found.filter((i) => i !== undefined))].sort((a, b) => a - b);
      for (const maker of made) {
        const there = arrivalOf(routes, tensor, maker, e.device);
        if (there !== null && e.start < there - tolerance && !steady) {
          report.add(5, `${nameOf(problem, e)} starts before tensor ${problem.tensors[tensor].name} is there`, there - e.start);
        }
      }
    }
  }
  routes.copies.forEach((copy, key) => {
    if (!routes.judgedHops.has(key)) report.add(3, `${nameOf(problem, copy)}: no reader needs this hop`, 1);
  });
}

/** When a tensor is on a device, s; null if it never is, which is then reported. */
function arrivalOf(routes, tensor, maker, device) {
  const key = `${tensor}|${maker}|${device}`;
  if (!routes.arrivals.has(key)) routes.arrivals.set(key, followRoute(routes, tensor, maker, device));
  return routes.arrivals.get(key);
}

function followRoute(routes, tensor, maker, device) {
  const { problem, executions, report } = routes;
  const made = executions[maker];
  const { name, bytes } = problem.tensors[tensor];
  const path = pathOf(problem, made.device, device, bytes * made.elements.length);
  if (path === null) {
    report.add(5, `tensor ${name} is read on ${problem.devices[device].name}, to which no link leads`);
    return null;
  }
  let whole = made.end;
  for (const link of path) {
    const key = `${tensor}|${maker}|${link.src}|${link.dst}`;
    if (!routes.judgedHops.has(key)) {
      routes.judgedHops.add(key);
      judgeHop(routes, key, whole, `${name} to ${problem.devices[link.dst].name}`);
    }
    const copy = routes.copies.get(key);
    whole = whole === null || copy === undefined ? null : copy.end;
  }
  return whole;
}

/** The hop is made, and not before its tensor is whole at the near end. */
function judgeHop({ problem, copies, report, tolerance, steady }, key, whole, what) {
  const copy = copies.get(key);
  if (copy === undefined) report.add(3, `tensor ${what} is not copied`, 1);
  else if (whole !== null && !steady && copy.start < whole - tolerance) {
    report.add(3, `${nameOf(problem, copy)} starts before the tensor is whole`, whole - copy.start);
  }
}

/** Rule 8: with contiguous stages, what devices read from each other forms no cycle. */
function judgePipeline({ problem, executions, makers, report }) {
  if (!problem.contiguous) return;
  const readers = new Map();
  for (const e of executions) {
    if (problem.tasks[e.task].isTerminal) continue;
    for (const tensor of problem.tasks[e.task].inputs) {
      const { src } = problem.tensors[tensor];
      if (problem.tasks[src].isTerminal) continue;
      for (const n of e.elements) {
        const maker = makers.get(`${src}|${n}`);
        const home = maker === undefined ? e.device : executions[maker].device;
        if (home !== e.device) readers.set(home, (readers.get(home) || new Set()).add(e.device));
      }
    }
  }
  const cycle = cycleOf(problem, readers);
  if (cycle.length > 0) {
    const names = [...cycle, cycle[0]].map((device) => problem.devices[device].name);
    report.add(8, `the stages are not contiguous: tensors are read along ${names.join(" -> ")}`, cycle.length);
  }
}

/** Some cycle; empty if there is none. Devices that no one left reads for are taken away first. */
function cycleOf(problem, readers) {
  let left = new Set(readers.keys());
  for (;;) {
    const fed = new Set();
    for (const device of left) readers.get(device).forEach((reader) => left.has(reader) && fed.add(reader));
    if (fed.size === left.size) break;
    left = fed;
  }
  if (left.size === 0) return [];
  const byName = (a, b) => (problem.devices[a].name < problem.devices[b].name ? -1 : 1);
  const way = [[...left].sort(byName)[0]];
  while (!way.slice(0, -1).includes(way[way.length - 1])) {
    const here = way[way.length - 1];
    way.push([...left].filter((device) => readers.get(device).has(here)).sort(byName)[0]);
  }
  const first = way.indexOf(way[way.length - 1]);
  return way.slice(first + 1).reverse();
}
