// The judge: every rule of docs/formats.md that a schedule breaks, as tvm_hetero/check finds them.
// A schedule is {problem, kind, value, lowerBound, status, single, executions, copies}; a task,
// tensor or device that the problem lacks is -1 and is reported.

const MOST_LISTED = 20;

/** Violations as they are found: {rule, text, amount}; of each rule the first few in full. */
class Report {
  constructor() {
    this.listed = [];
    this.counts = new Map();
  }

  add(rule, text, amount = 0) {
    const count = (this.counts.get(rule) || 0) + 1;
    this.counts.set(rule, count);
    if (count <= MOST_LISTED) this.listed.push({ rule, text, amount });
  }

  violations() {
    const more = [...this.counts]
      .filter(([, count]) => count > MOST_LISTED)
      .map(([rule, count]) => ({ rule, text: `${count - MOST_LISTED} more`, amount: count - MOST_LISTED }));
    return [...this.listed, ...more].sort(byNumbers((each) => [each.rule]));
  }
}

/** All violations of a schedule; none if it is valid. */
function judgeSchedule(problem, schedule) {
  const report = new Report();
  const executions = schedule.executions.filter((e) => canBeRead(problem, e, report));
  const judged = {
    problem, report, executions, hops: [],
    makers: findMakers(problem, executions, report),
    tolerance: toleranceOfTimes(executions),
    steady: problem.kind === "throughput",
  };
  for (const copy of schedule.copies) readCopy(judged, copy);
  judgeDurations(judged);
  judgeColors(judged);
  judgeResources(judged);
  judgeInputs(judged);
  judgePipeline(judged);
  judgeMemory(judged);
  judgeLimit(judged);
  const isWhole = executions.length === schedule.executions.length && judged.hops.length === schedule.copies.length;
  if (isWhole) judgeValue(judged, schedule);
  judgeStatement(judged, schedule);
  return report.violations();
}

function canBeRead(problem, e, report) {
  let trouble = "";
  if (e.task < 0) trouble = "there is no such task";
  else if (!problem.tasks[e.task].cost.has(e.device)) trouble = "the device cannot run it";
  else trouble = troubleOf(problem, e);
  if (trouble) report.add(1, `${nameOf(problem, e)}: ${trouble}`);
  return !trouble;
}

/** What is wrong with elements or times; empty if nothing is. */
function troubleOf(problem, { elements, start, end }) {
  const isElement = (n) => Number.isInteger(n) && n >= 0 && n < problem.batch;
  if (elements.length === 0 || !elements.every(isElement)) return `elements [${elements}] are no part of the batch`;
  if (new Set(elements).size < elements.length) return `elements [${elements}] name one twice`;
  if (!(start >= 0 && start < Infinity && end >= 0 && end < Infinity)) return "expected times from 0 on";
  return "";
}

/** Rule 1: each element of each task is in exactly one execution; in which one. */
function findMakers(problem, executions, report) {
  const makers = new Map();
  executions.forEach((e, i) => {
    for (const n of e.elements) {
      const key = `${e.task}|${n}`;
      if (makers.has(key)) report.add(1, `${nameOf(problem, e)}: element ${n} is executed more than once`, 1);
      else makers.set(key, i);
    }
  });
  problem.tasks.forEach((task, t) => {
    let missing = 0;
    for (let n = 0; n < problem.batch; n++) if (!makers.has(`${t}|${n}`)) missing++;
    if (missing > 0) report.add(1, `task ${task.name}: not executed`, missing);
  });
  return makers;
}

/** Rule 3: link and maker of a copy. */
function readCopy(judged, copy) {
  const { problem, makers, executions } = judged;
  const link = problem.linkOf.get(`${copy.src}>${copy.dst}`);
  let trouble = troubleOf(problem, copy);
  if (copy.tensor < 0) trouble = "there is no such tensor";
  else if (!link) trouble = "there is no direct link";
  else if (!trouble) {
    const made = makers.get(`${problem.tensors[copy.tensor].src}|${copy.elements[0]}`);
    const own = made === undefined ? [] : executions[made].elements;
    if (own.length === copy.elements.length && own.every((n) => copy.elements.includes(n))) {
      judged.hops.push({ copy, link, made });
      return;
    }
    trouble = "its elements are not those of one execution";
  }
  judged.report.add(3, `${nameOf(problem, copy)}: ${trouble}`);
}

/** Rules 1 and 3: what everything takes. */
function judgeDurations({ problem, executions, hops, report, tolerance }) {
  const judge = (rule, activity, expected) => {
    const off = Math.abs(activity.end - activity.start - expected);
    if (!(off <= tolerance)) report.add(rule, `${nameOf(problem, activity)}: takes another time than it costs`, off);
  };
  for (const e of executions) judge(1, e, taskSeconds(problem, e.task, e.device, e.elements.length));
  for (const { copy, link } of hops) {
    judge(3, copy, linkSeconds(link, problem.tensors[copy.tensor].bytes * copy.elements.length));
  }
}

/** Rule 1: tasks of one color are on one device. */
function judgeColors({ problem, executions, report }) {
  const homes = new Map();
  for (const e of executions) {
    const { color } = problem.tasks[e.task];
    if (color !== null) homes.set(color, (homes.get(color) || new Set()).add(e.device));
  }
  homes.forEach((devices, color) => {
    if (devices.size > 1) report.add(1, `the tasks of color ${color} must share one device`, devices.size - 1);
  });
}

/** Rules 2, 3 and 4: devices, their cores, and exclusive links do one thing at a time. */
function judgeResources({ problem, executions, hops, report, tolerance, steady }) {
  const users = new Map();
  const add = (what, activity) => users.set(what, [...(users.get(what) || []), activity]);
  for (const e of executions) engagedBy(problem, e.device).forEach((what) => add(what, e));
  if (!steady) for (const { copy, link } of hops) occupiedBy(problem, link).forEach((what) => add(what, copy));
  users.forEach((activities, what) => {
    const [kind, number] = what.split(" ");
    // Who is on a team is on all of its cores, so these say it all.
    if (kind === "device" && problem.teams.has(Number(number))) return;
    judgeTurns(problem, activities, kind, what, report, tolerance);
  });
}

function judgeTurns(problem, activities, kind, what, report, tolerance) {
  activities.sort(byNumbers((each) => [each.start, each.end]));
  let last = activities[0];
  for (const each of activities.slice(1)) {
    if (!(each.start >= last.end - tolerance) && !(each.end <= last.start + tolerance)) {
      const areRuns = "task" in last && "task" in each;
      const rule = kind === "link" ? 3 : areRuns ? 2 : 4;
      const overlap = Math.min(last.end, each.end) - each.start;
      report.add(rule, `${resourceName(problem, what)} does two things at once: ${nameOf(problem, last)} and ${nameOf(problem, each)}`, overlap);
    }
    if (each.end > last.end) last = each;
  }
}

function judgeMemory({ problem, executions, hops, report }) {
  const copies = hops.map((each) => each.copy);
  const most = allBytes(problem, executions, copies);
  const limits = problem.devices.map((device) => device.memory);
  if (limits.every((limit, d) => limit === null || (most.get(problem.devices[d].place) || 0) <= limit)) return;
  memoryNeeds(problem, executions, copies).forEach((need, d) => {
    if (limits[d] === null || need.bytes <= limits[d]) return;
    const text = `device ${problem.devices[d].name} needs ${need.bytes} bytes and has ${limits[d]}`;
    report.add(6, text, need.bytes - limits[d]);
  });
}

function judgeLimit({ problem, executions, report, tolerance }) {
  const end = lastEnd(executions);
  if (problem.latencyLimit === null || end <= problem.latencyLimit + tolerance) return;
  report.add(7, "the last execution ends after the latency limit", end - problem.latencyLimit);
}

/** Rule 7: the value is the one that is said; in a steady state all lies in one period. */
function judgeValue({ problem, executions, hops, report, tolerance, steady }, schedule) {
  const value = objectiveValue(problem, schedule.executions, schedule.copies);
  let scale = Math.abs(value);
  if (problem.kind === "energy") {
    const idle = problem.devices.reduce((sum, device) => sum + device.idleWatts, 0);
    scale = Math.max(scale, lastEnd(schedule.executions) * idle);
  }
  const off = Math.abs(schedule.value - value);
  if (!(off <= ABSOLUTE + RELATIVE * scale)) report.add(7, `the value is stated as ${schedule.value} but is ${value}`, off);
  if (!steady) return;
  const busy = hops.filter(({ link }) => occupiedBy(problem, link).length > 0).map(({ copy }) => copy);
  for (const activity of [...executions, ...busy]) {
    if (activity.end > value + tolerance) {
      report.add(7, `${nameOf(problem, activity)} ends outside the period`, activity.end - value);
    }
  }
}

/** Rule 0: what the schedule says of itself. */
function judgeStatement({ problem, report }, schedule) {
  if (schedule.problem !== problem.digest) report.add(0, "the schedule answers another problem");
  if (schedule.kind !== problem.kind) report.add(0, `the schedule's objective is ${schedule.kind}, the problem's ${problem.kind}`);
  let most = schedule.value;
  if (schedule.single !== null) {
    most = Math.min(most, schedule.single.value);
    if (schedule.single.device < 0) report.add(0, "best single device: there is no such device");
  }
  const { lowerBound, value } = schedule;
  if (!(lowerBound >= 0 && lowerBound <= most * (1 + RELATIVE))) {
    report.add(0, `expected a lower bound from 0 to ${most}, got ${lowerBound}`, lowerBound - most);
  }
  const gap = value > 0 ? Math.max(0, (value - lowerBound) / value) : 0;
  if (schedule.status === "optimal" && !(gap <= OPTIMAL_GAP)) report.add(0, "it is called optimal and has a gap", gap);
}

const OPTIMAL_GAP = 1e-6;
