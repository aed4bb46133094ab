// Sums and searches as Python has them, so that values are the same to the last bit.

/** The exact sum of finite numbers, rounded once: Python's math.fsum (Shewchuk, 1997). */
function exactSum(values) {
  const partials = [];
  for (let x of values) {
    let kept = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low !== 0) partials[kept++] = low;
      x = high;
    }
    partials.length = kept;
    partials.push(x);
  }
  return roundPartials(partials);
}

/** Partials do not overlap and grow: the largest, corrected where the rest lies on a tie. */
function roundPartials(partials) {
  let n = partials.length;
  if (n === 0) return 0;
  let high = partials[--n];
  let low = 0;
  while (n > 0) {
    const x = high;
    const y = partials[--n];
    high = x + y;
    low = y - (high - x);
    if (low !== 0) break;
  }
  if (n > 0 && ((low < 0 && partials[n - 1] < 0) || (low > 0 && partials[n - 1] > 0))) {
    const y = low * 2;
    const x = high + y;
    if (y === x - high) high = x;
  }
  return high;
}

/** The largest of some numbers, and `least` of none. */
function largest(values, least) {
  let found = least;
  for (const value of values) if (value > found) found = value;
  return found;
}

/** How many of some rising numbers are at most `value`. */
function countUpTo(rising, value) {
  let low = 0;
  let high = rising.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value < rising[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Compare by some numbers, the first that differ; for sort(). */
function byNumbers(numbersOf) {
  return (a, b) => {
    const one = numbersOf(a);
    const other = numbersOf(b);
    for (let i = 0; i < one.length; i++) {
      if (one[i] !== other[i]) return one[i] < other[i] ? -1 : 1;
    }
    return 0;
  };
}

/** The end of the last execution, s. */
function lastEnd(executions) {
  return largest(executions.map((e) => e.end), 0);
}

const RELATIVE = 1e-9;
const ABSOLUTE = 1e-15;

/** By how much two times of a schedule may differ and count as equal, s. */
function toleranceOfTimes(executions) {
  return ABSOLUTE + RELATIVE * lastEnd(executions);
}
