// The problem: what tasks cost where, what they read, and how tensors get from device to device.
// Tasks, tensors and devices are numbers, their places in what Python wrote (report/explorer/data.py).

/** Add what is looked up to the problem as it was written. */
function readProblem(data) {
  const problem = { ...data, paths: new Map() };
  problem.tasks.forEach((task) => {
    task.cost = new Map(task.costs);
    task.energy = new Map(task.energies);
  });
  problem.linkOf = new Map(data.links.map((link) => [`${link.src}>${link.dst}`, link]));
  problem.linkOf.forEach((link) => {
    if (link.bandwidth === null) link.bandwidth = Infinity;
  });
  problem.outward = data.devices.map(() => []);
  data.links.forEach((link) => problem.outward[link.src].push(link));
  problem.teams = teamCores(problem);
  return problem;
}

/** What n elements of a task take on a device, s. */
function taskSeconds(problem, task, device, elements) {
  return figureOf(problem.tasks[task].cost.get(device), elements);
}

/** Seconds, or joules, of n elements, from a table of them. */
function figureOf(points, elements) {
  let i = 0;
  while (i < points.length && points[i][0] < elements) i++;
  if (i < points.length && points[i][0] === elements) return points[i][1];
  const last = Math.min(i, points.length - 1);
  let [n0, s0] = last > 0 ? points[last - 1] : [0, 0];
  const [n1, s1] = points[last];
  // A last slope that falls says nothing of larger batches.
  if (i === points.length && s1 < s0) [n0, s0] = [0, 0];
  return s1 + ((s1 - s0) / (n1 - n0)) * (elements - n1);
}

function linkSeconds(link, bytes) {
  return link.latency + bytes / link.bandwidth;
}

/** The cores of each device that has one in common with another, as names; by device. */
function teamCores(problem) {
  const users = new Map();
  const named = problem.devices.map((device) => device.cores.map((core) => `${device.node}|${core}`));
  named.forEach((cores, d) => cores.forEach((core) => users.set(core, [...(users.get(core) || []), d])));
  const teams = new Map();
  if (problem.sharedCores) return teams;
  named.forEach((cores, d) => {
    if (cores.some((core) => users.get(core).length > 1)) teams.set(d, cores);
  });
  return teams;
}

/** What work on a device excludes: the device, and its cores if it shares any. */
function engagedBy(problem, device) {
  const cores = problem.teams.get(device) || [];
  return [`device ${device}`, ...cores.map((core) => `core ${core}`)];
}

/** What a hop excludes: ends without a copy engine, and its link if that is exclusive. */
function occupiedBy(problem, link) {
  const found = new Set();
  for (const end of [link.src, link.dst]) {
    if (!problem.devices[end].overlap) engagedBy(problem, end).forEach((what) => found.add(what));
  }
  if (link.exclusive) found.add(`link ${link.src}>${link.dst}`);
  return [...found];
}

/** The hops that move so many bytes from device to device; null where no path leads there. */
function pathOf(problem, src, dst, bytes) {
  if (src === dst) return [];
  const direct = problem.linkOf.get(`${src}>${dst}`);
  if (direct) return [direct];
  const key = `${src}>${dst}>${bytes}`;
  if (!problem.paths.has(key)) problem.paths.set(key, cheapestPath(problem, src, dst, bytes));
  return problem.paths.get(key);
}

/** Dijkstra by (time, hops, devices on the way), so that of equal paths all take one. */
function cheapestPath(problem, src, dst, bytes) {
  const settled = new Set();
  const open = [{ seconds: 0, way: [src], links: [] }];
  const before = (a, b) => {
    if (a.seconds !== b.seconds) return a.seconds < b.seconds;
    if (a.way.length !== b.way.length) return a.way.length < b.way.length;
    const i = a.way.findIndex((device, place) => device !== b.way[place]);
    return i >= 0 && a.way[i] < b.way[i];
  };
  while (open.length > 0) {
    let first = 0;
    for (let i = 1; i < open.length; i++) if (before(open[i], open[first])) first = i;
    const [here] = open.splice(first, 1);
    const device = here.way[here.way.length - 1];
    if (device === dst) return here.links;
    if (settled.has(device)) continue;
    settled.add(device);
    for (const link of problem.outward[device]) {
      if (settled.has(link.dst)) continue;
      open.push({
        seconds: here.seconds + linkSeconds(link, bytes),
        way: [...here.way, link.dst],
        links: [...here.links, link],
      });
    }
  }
  return null;
}
