// What a schedule is worth: rules 4 and 7 of docs/formats.md, as tvm_hetero/check/value.py counts.

/** Busy seconds of each device, core of teams and exclusive link in use. */
function busyTimes(problem, executions, copies) {
  const charges = new Map();
  const charge = (what, seconds) => {
    if (!charges.has(what)) charges.set(what, []);
    charges.get(what).push(seconds);
  };
  for (const e of executions) {
    const seconds = taskSeconds(problem, e.task, e.device, e.elements.length);
    engagedBy(problem, e.device).forEach((what) => charge(what, seconds));
  }
  for (const copy of copies) {
    [copy.src, copy.dst].forEach((end) => charge(`device ${end}`, 0));
    const link = problem.linkOf.get(`${copy.src}>${copy.dst}`);
    if (!link) continue;
    const seconds = linkSeconds(link, copy.elements.length * problem.tensors[copy.tensor].bytes);
    occupiedBy(problem, link).forEach((what) => charge(what, seconds));
  }
  return new Map([...charges].map(([what, seconds]) => [what, exactSum(seconds)]));
}

/** The objective's value: s, s per batch, J per batch, or money per batch. */
function objectiveValue(problem, executions, copies) {
  const end = lastEnd(executions);
  if (problem.kind === "latency") return end;
  const busy = busyTimes(problem, executions, copies);
  if (problem.kind === "throughput") return largest(busy.values(), 0);
  const own = problem.kind === "energy" ? taskEnergies(problem, executions) : [];
  return exactSum([...spendings(problem, busy, end), ...own]);
}

/** What executions draw whose task has an energy of its own, instead of the device's watts. */
function taskEnergies(problem, executions) {
  return executions.flatMap((e) => {
    const points = problem.tasks[e.task].energy.get(e.device);
    if (!points) return [];
    const count = e.elements.length;
    const seconds = taskSeconds(problem, e.task, e.device, count);
    return [figureOf(points, count), -(problem.devices[e.device].watts || 0) * seconds];
  });
}

/** What devices in use spend or are paid for; of teams, what lasts is each core's, once. */
function spendings(problem, busy, end) {
  const isEnergy = problem.kind === "energy";
  const found = [];
  const most = new Map();
  problem.devices.forEach((device, d) => {
    const seconds = busy.get(`device ${d}`);
    if (seconds === undefined) return;
    const price = (device.price || 0) / 3600;
    const working = (device.watts || 0) * seconds;
    const cores = problem.teams.get(d);
    if (!cores) {
      found.push(isEnergy ? working + device.idleWatts * Math.max(0, end - seconds) : price * end);
      return;
    }
    const share = (isEnergy ? device.idleWatts : price) / cores.length;
    cores.forEach((core) => most.set(core, Math.max(most.get(core) || 0, share)));
    found.push(isEnergy ? working : 0);
  });
  most.forEach((rate, core) => {
    const idle = Math.max(0, end - (busy.get(`core ${core}`) || 0));
    found.push(rate * (isEnergy ? idle : end));
  });
  return found;
}
