// How much memory a schedule needs on each device: rule 6, as tvm_hetero/check/memory.py counts.

/** The most bytes that each device holds at once, and the first moment when it does, s. */
function memoryNeeds(problem, executions, copies) {
  const places = problem.devices.map((device) => device.place);
  if (problem.kind === "throughput") {
    const total = allBytes(problem, executions, copies);
    return places.map((place) => ({ bytes: total.get(place) || 0, seconds: 0 }));
  }
  const weights = weightBytes(problem, executions);
  const stays = new Map(places.map((place) => [place, []]));
  for (const stay of staysOf(problem, executions, copies)) stays.get(stay.place).push(stay);
  const blink = toleranceOfTimes(executions);
  const found = new Map([...stays].map(([place, own]) => [place, largestNeed(weights.get(place) || 0, own, blink)]));
  return places.map((place) => found.get(place));
}

/** Weights in each memory: of every task that runs there, however often. */
function weightBytes(problem, executions) {
  const seen = new Set();
  const total = new Map();
  for (const e of executions) {
    const { place } = problem.devices[e.device];
    if (seen.has(`${place}|${e.task}`)) continue;
    seen.add(`${place}|${e.task}`);
    total.set(place, (total.get(place) || 0) + problem.tasks[e.task].weightBytes);
  }
  return total;
}

/** Weights and all that is ever made in or copied to each memory. */
function allBytes(problem, executions, copies) {
  const total = weightBytes(problem, executions);
  const there = new Set();
  const add = (place, bytes) => total.set(place, (total.get(place) || 0) + bytes);
  for (const e of executions) {
    const { place } = problem.devices[e.device];
    const task = problem.tasks[e.task];
    const made = task.outputs.reduce((sum, tensor) => sum + problem.tensors[tensor].bytes, 0);
    add(place, e.elements.length * (made + task.unreadBytes));
    task.outputs.forEach((tensor) => there.add(`${place}|${tensor}|${e.elements[0]}`));
  }
  for (const copy of copies) {
    const { place } = problem.devices[copy.dst];
    const arrival = `${place}|${copy.tensor}|${copy.elements[0]}`;
    // In the memory of a node's teams one tensor is there once, however it came.
    if (!(place.startsWith("node ") && there.has(arrival))) {
      add(place, copy.elements.length * problem.tensors[copy.tensor].bytes);
    }
    there.add(arrival);
  }
  return total;
}

/** Where each tensor lies, and from when to when: {place, bytes, begin, end}. */
function* staysOf(problem, executions, copies) {
  const makespan = lastEnd(executions);
  const maker = new Map();
  executions.forEach((e, i) => e.elements.forEach((n) => maker.set(`${e.task}|${n}`, i)));
  const hops = new Map();
  const readers = new Map();
  const put = (table, key, row) => table.set(key, [...(table.get(key) || []), row]);
  for (const copy of copies) {
    const source = problem.tensors[copy.tensor].src;
    put(hops, `${copy.tensor}|${maker.get(`${source}|${copy.elements[0]}`)}`, copy);
  }
  for (const e of executions) {
    for (const tensor of problem.tasks[e.task].inputs) {
      const source = problem.tensors[tensor].src;
      const makers = new Set(e.elements.map((n) => maker.get(`${source}|${n}`)));
      makers.forEach((made) => put(readers, `${tensor}|${made}`, e));
    }
  }
  for (const [i, e] of executions.entries()) {
    const count = e.elements.length;
    const task = problem.tasks[e.task];
    const { place } = problem.devices[e.device];
    yield { place, bytes: count * task.unreadBytes, begin: e.start, end: makespan };
    for (const tensor of task.outputs) {
      const key = `${tensor}|${i}`;
      const bytes = count * problem.tensors[tensor].bytes;
      yield* followTensor(problem, e, bytes, hops.get(key) || [], readers.get(key) || []);
    }
  }
}

/** Where one tensor of one execution lies. */
function* followTensor(problem, made, bytes, hops, readers) {
  const at = (device) => problem.devices[device].place;
  const begin = new Map([[at(made.device), made.start]]);
  const end = new Map([[at(made.device), made.end]]);
  for (const copy of hops) {
    const place = at(copy.dst);
    begin.set(place, begin.has(place) ? Math.min(copy.start, begin.get(place)) : copy.start);
    end.set(place, end.has(place) ? Math.max(copy.end, end.get(place)) : copy.end);
  }
  const uses = [...hops.map((copy) => [at(copy.src), copy.end]), ...readers.map((e) => [at(e.device), e.end])];
  for (const [place, last] of uses) if (end.has(place)) end.set(place, Math.max(last, end.get(place)));
  for (const [place, since] of begin) yield { place, bytes, begin: since, end: end.get(place) };
}

/** The largest need, looked for at every beginning; what ends as another begins is gone. */
function largestNeed(weights, all, blink) {
  const stays = all.filter((stay) => stay.end - blink > stay.begin).sort(byNumbers((stay) => [stay.begin]));
  const leaving = stays.map((stay) => [stay.end - blink, stay.bytes]).sort(byNumbers((row) => row));
  const moments = leaving.map(([moment]) => moment);
  const gone = [0];
  leaving.forEach(([, bytes]) => gone.push(gone[gone.length - 1] + bytes));
  let most = { bytes: weights, seconds: 0 };
  let come = 0;
  stays.forEach((stay, i) => {
    come += stay.bytes;
    if (i + 1 < stays.length && stays[i + 1].begin === stay.begin) return;
    const here = weights + come - gone[countUpTo(moments, stay.begin)];
    if (here > most.bytes) most = { bytes: here, seconds: stay.begin };
  });
  return most;
}
