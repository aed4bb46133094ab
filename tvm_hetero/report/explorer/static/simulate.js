// Times for a placement and an order, as tvm_hetero/problem/simulate.py gives them: every step is
// appended to its device, after what it reads was brought there hop by hop.

/** A placement that cannot be carried out: a device that no link reaches. */
class Impossible extends Error {}

/** Executions and copies of steps {task, device, elements}, taken in their order. */
function simulate(problem, steps) {
  const clock = { problem, executions: [], copies: [], free: new Map(), made: new Map(), hops: new Map() };
  return problem.kind === "throughput" ? onePeriod(clock, steps) : oneBatch(clock, steps);
}

function oneBatch(clock, steps) {
  for (const step of steps) {
    let ready = 0;
    for (const [tensor, maker] of readsOf(clock, step)) {
      ready = Math.max(ready, bring(clock, tensor, maker, step.device));
    }
    execute(clock, step, ready);
  }
  return { executions: clock.executions, copies: clock.copies };
}

/** Executions back to back, wide teams first, then the copies; a late copy goes back inside. */
function onePeriod(clock, steps) {
  const width = (step) => (clock.problem.teams.get(step.device) || []).length;
  for (const step of [...steps].sort((a, b) => width(b) - width(a))) execute(clock, step, 0);
  for (const step of steps) {
    for (const [tensor, maker] of readsOf(clock, step)) bring(clock, tensor, maker, step.device);
  }
  const period = periodOf(clock);
  const copies = clock.copies.map((copy) => {
    const late = Math.min(copy.start, copy.end - period);
    return late > 0 ? { ...copy, start: copy.start - late, end: copy.end - late } : copy;
  });
  return { executions: clock.executions, copies };
}

/** [tensor, execution that made it] of all that a step reads, each once. */
function readsOf(clock, step) {
  const found = new Map();
  for (const tensor of clock.problem.tasks[step.task].inputs) {
    for (const element of step.elements) {
      const maker = clock.made.get(`${clock.problem.tensors[tensor].src}|${element}`);
      if (maker === undefined) throw new Impossible("the order is not topological");
      found.set(`${tensor}|${maker}`, [tensor, maker]);
    }
  }
  return [...found.values()];
}

function execute(clock, { task, device, elements }, ready) {
  const engaged = engagedBy(clock.problem, device);
  const start = largest(engaged.map((what) => clock.free.get(what) || 0), ready);
  const end = start + taskSeconds(clock.problem, task, device, elements.length);
  engaged.forEach((what) => clock.free.set(what, end));
  elements.forEach((element) => clock.made.set(`${task}|${element}`, clock.executions.length));
  clock.executions.push({ task, device, elements, start, end });
}

/** Copy a tensor to a device unless it is there; when it is there, s. */
function bring(clock, tensor, maker, device) {
  const { problem, executions } = clock;
  const { elements, device: home } = executions[maker];
  const bytes = problem.tensors[tensor].bytes * elements.length;
  const path = pathOf(problem, home, device, bytes);
  if (path === null) {
    throw new Impossible(`no link leads from ${problem.devices[home].name} to ${problem.devices[device].name}`);
  }
  let whole = executions[maker].end;
  for (const link of path) {
    const key = `${tensor}|${maker}|${link.src}|${link.dst}`;
    if (!clock.hops.has(key)) {
      const copy = { tensor, elements, src: link.src, dst: link.dst, ...hop(clock, link, bytes, whole) };
      clock.hops.set(key, copy.end);
      clock.copies.push(copy);
    }
    whole = clock.hops.get(key);
  }
  return whole;
}

/** Append a hop to all that it occupies. What a period copies was made before it began. */
function hop(clock, link, bytes, whole) {
  const occupied = occupiedBy(clock.problem, link);
  const since = clock.problem.kind === "throughput" ? 0 : whole;
  const start = largest(occupied.map((what) => clock.free.get(what) || 0), since);
  const end = start + linkSeconds(link, bytes);
  occupied.forEach((what) => clock.free.set(what, end));
  return { start, end };
}

/** The largest load of a device, a core of teams or an exclusive link, s. */
function periodOf(clock) {
  const parts = new Map();
  const add = (what, activity) => parts.set(what, [...(parts.get(what) || []), activity.end - activity.start]);
  clock.executions.forEach((e) => engagedBy(clock.problem, e.device).forEach((what) => add(what, e)));
  clock.copies.forEach((copy) => {
    const link = clock.problem.linkOf.get(`${copy.src}>${copy.dst}`);
    occupiedBy(clock.problem, link).forEach((what) => add(what, copy));
  });
  return largest([...parts.values()].map(exactSum), -Infinity);
}

/** Executions by start, each after those that make what it reads; ties by their place. */
function executableOrder(problem, executions) {
  const makers = new Map();
  executions.forEach((e, i) => e.elements.forEach((n) => makers.set(`${e.task}|${n}`, i)));
  const needs = executions.map((e) => {
    const found = new Set();
    for (const tensor of problem.tasks[e.task].inputs) {
      for (const n of e.elements) {
        const maker = makers.get(`${problem.tensors[tensor].src}|${n}`);
        if (maker !== undefined) found.add(maker);
      }
    }
    return found;
  });
  const left = new Set(executions.keys());
  const order = [];
  while (left.size > 0) {
    let next = -1;
    for (const i of left) {
      const ready = [...needs[i]].every((maker) => !left.has(maker));
      if (ready && (next < 0 || executions[i].start < executions[next].start)) next = i;
    }
    if (next < 0) break;
    left.delete(next);
    order.push(next);
  }
  return [...order, ...left].map((i) => executions[i]);
}
