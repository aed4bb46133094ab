// Numbers as people read them: three digits, a unit, a no-break space between.

const GAP = "\u00a0";
export const NONE = "–";

function digits(value) {
  const whole = Math.floor(Math.log10(Math.abs(value) / 0.9995)) + 1;
  return value.toFixed(Math.max(0, Math.min(2, 3 - whole)));
}

/** A time: 12.3 ms. */
export function seconds(value) {
  if (value === null || value === undefined) {
    return NONE;
  }
  if (value === 0) {
    return `0${GAP}s`;
  }
  for (const [unit, factor] of [["s", 1], ["ms", 1e-3]]) {
    if (value >= 0.9995 * factor) {
      return `${digits(value / factor)}${GAP}${unit}`;
    }
  }
  return `${digits(value / 1e-6)}${GAP}µs`;
}

/** A time that someone chose: 20 ms, not 20.0 ms. */
export function brief(value) {
  const [unit, factor] = value >= 0.9995 ? ["s", 1] : value >= 0.0009995 ? ["ms", 1e-3] : ["µs", 1e-6];
  return `${Number((value / factor).toPrecision(3))}${GAP}${unit}`;
}

/** A count, a rate or a mean: 1,234, 12, 12.3, 0.12. */
export function number(value) {
  const isWhole = Number.isInteger(value) || value >= 1000;
  return isWhole ? Math.round(value).toLocaleString("en") : digits(value);
}

/** A share, never rounded to all or nothing: 99.9 %. */
export function percent(share) {
  if (share === 0 || share === 1) {
    return `${share * 100}${GAP}%`;
  }
  const value = Math.min(99.9, Math.max(0.1, share * 100));
  return `${value.toFixed(1)}${GAP}%`;
}

/** How long something lasts: 2 d 3 h, 12 min, 5 s. */
export function duration(value) {
  const all = Math.max(0, Math.floor(value));
  const [days, hours] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24];
  const minutes = Math.floor(all / 60) % 60;
  if (days) {
    return `${days}${GAP}d ${hours}${GAP}h`;
  }
  if (hours) {
    return `${hours}${GAP}h ${minutes}${GAP}min`;
  }
  return minutes ? `${minutes}${GAP}min` : `${all}${GAP}s`;
}

/** A moment of today as 13:04:59, of another day with its date. */
export function moment(unix, now) {
  const [then, today] = [new Date(unix * 1000), new Date(now * 1000)];
  const time = then.toLocaleTimeString("en-GB");
  return then.toDateString() === today.toDateString()
    ? time
    : `${then.toISOString().slice(0, 10)} ${time}`;
}

/** The sum of numbers. */
export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** The mean of the last ten numbers of a list. */
export function lately(values) {
  const last = values.slice(-10);
  return last.length ? sum(last) / last.length : 0;
}

/** "1 request", "2 requests". */
export function count(value, noun) {
  return `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;
}
