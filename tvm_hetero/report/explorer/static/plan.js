// A plan: a schedule's document read by numbers, edited, timed anew, and written again.

const SCHEDULE_FORMAT = "tvm-hetero/schedule/1";
// As data.py's: what is judged and drawn within a breath.
const MOST_EXECUTIONS = 2500;
const MOST_COPIES = 100000;

/** Read a schedule's document; an Error says what is wrong with it. */
function readPlan(problem, document) {
  if (!document || document.format !== SCHEDULE_FORMAT) throw new Error(`expected a file of format ${SCHEDULE_FORMAT}`);
  const index = (rows) => new Map(rows.map((row, i) => [row.name, i]));
  const [tasks, tensors, devices] = [problem.tasks, problem.tensors, problem.devices].map(index);
  const place = (table, name) => (table.has(name) ? table.get(name) : -1);
  const rows = (value, most) => {
    if (!Array.isArray(value)) throw new Error("expected lists of executions and copies");
    if (value.length > most) throw new Error(`${value.length} rows are more than the ${most} that a page can handle`);
    return value;
  };
  const times = ({ elements, start, end }) => {
    if (!Array.isArray(elements) || typeof start !== "number" || typeof end !== "number") {
      throw new Error("expected elements, start and end with every execution and copy");
    }
    return { elements: elements.map(Number), start, end };
  };
  const single = document.best_single_device || null;
  return {
    problem: document.problem,
    solver: String(document.solver),
    kind: document.objective.kind,
    value: document.objective.value,
    lowerBound: document.lower_bound || 0,
    status: document.status,
    single: single && { device: place(devices, single.device), value: single.value },
    executions: rows(document.executions, MOST_EXECUTIONS).map((e) => ({
      task: place(tasks, e.task), device: place(devices, e.device), ...times(e),
    })),
    copies: rows(document.copies, MOST_COPIES).map((c) => ({
      tensor: place(tensors, c.tensor), src: place(devices, c.from), dst: place(devices, c.to), ...times(c),
    })),
  };
}

/** The plan with times, copies and value that follow from its placement and order. */
function retimePlan(problem, plan) {
  const order = executableOrder(problem, plan.executions);
  const { executions, copies } = simulate(problem, order);
  const value = objectiveValue(problem, executions, copies);
  const bound = plan.lowerBound <= value * (1 + OPTIMAL_GAP) ? plan.lowerBound : 0;
  return {
    ...plan,
    solver: "edited",
    value,
    lowerBound: Math.min(bound, value),
    status: value - bound <= OPTIMAL_GAP * value ? "optimal" : "feasible",
    executions,
    copies,
  };
}

/** The plan with one execution, and those that must stay with it, on another device. */
function movePlan(problem, plan, place, device, start) {
  const { color } = problem.tasks[plan.executions[place].task];
  const executions = plan.executions.map((e, i) => {
    const isSame = i === place || (color !== null && problem.tasks[e.task].color === color);
    if (!isSame) return e;
    return { ...e, device, start: i === place && start !== undefined ? start : e.start };
  });
  return retimePlan(problem, { ...plan, executions });
}

/** The devices that can run an execution and all that must stay with it. */
function devicesFor(problem, plan, place) {
  const { task } = plan.executions[place];
  const { color } = problem.tasks[task];
  const together = color === null ? [task] : problem.tasks.flatMap((each, t) => (each.color === color ? [t] : []));
  return problem.devices.flatMap((_, d) => (together.every((t) => problem.tasks[t].cost.has(d)) ? [d] : []));
}

/** The plan's document, as `tvm-hetero check` and `partition --plan` read it. */
function planDocument(problem, plan) {
  const [tasks, tensors, devices] = [problem.tasks, problem.tensors, problem.devices].map((rows) => rows.map((row) => row.name));
  return {
    format: SCHEDULE_FORMAT,
    problem: problem.digest,
    solver: plan.solver,
    status: plan.status,
    seed: 0,
    seconds: 0,
    executions: plan.executions.map(({ task, device, elements, start, end }) => ({
      task: tasks[task], device: devices[device], elements, start, end,
    })),
    copies: plan.copies.map(({ tensor, elements, src, dst, start, end }) => ({
      tensor: tensors[tensor], elements, from: devices[src], to: devices[dst], start, end,
    })),
    objective: { kind: problem.kind, value: plan.value },
    lower_bound: plan.lowerBound,
    gap: plan.value > 0 ? Math.max(0, (plan.value - plan.lowerBound) / plan.value) : 0,
    best_single_device: plan.single && { device: devices[plan.single.device], value: plan.single.value },
  };
}
