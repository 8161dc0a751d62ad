// SPDX-License-Identifier: Apache-2.0
//
// Figures as people say them: a unit, and no more digits than mean something.

export const NOTHING = "–"; // what is not known

const plain = (digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const WRITERS = [plain(0), plain(1), plain(2)];

const isKnown = (value) => typeof value === "number" && Number.isFinite(value);
const fixed = (value, digits) => WRITERS[digits].format(value);

// 8 912, 45 120, but 1.3 M.
export function count(value) {
  if (!isKnown(value)) return NOTHING;
  if (Math.abs(value) >= 1e9) return `${fixed(value / 1e9, 1)} G`;
  if (Math.abs(value) >= 1e6) return `${fixed(value / 1e6, 1)} M`;
  return fixed(value, 0);
}

// As count, and shorter: 18.2 k.
export function tokens(value) {
  return isKnown(value) && value >= 1e4 && value < 1e6 ? `${fixed(value / 1e3, 1)} k` : count(value);
}

export function rate(value) {
  if (!isKnown(value)) return NOTHING;
  return value === 0 || value >= 100 ? count(value) : fixed(value, value < 1 ? 2 : 1);
}

export function percent(share, digits = 0) {
  return isKnown(share) ? `${fixed(share * 100, digits)}%` : NOTHING;
}

export function ms(value) {
  if (!isKnown(value)) return NOTHING;
  if (value < 10) return `${fixed(value, 1)} ms`;
  if (value < 999.5) return `${fixed(value, 0)} ms`;
  if (value < 59950) return `${fixed(value / 1000, value < 9995 ? 2 : 1)} s`;
  return duration(value / 1000);
}

export function us(value) {
  if (!isKnown(value)) return NOTHING;
  if (value < 999.5) return `${fixed(value, value > 0 && value < 10 ? 1 : 0)} µs`;
  return ms(value / 1000);
}

// The two largest units: 3 h 12 min.
export function duration(seconds) {
  if (!isKnown(seconds)) return NOTHING;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 59.5) return `${fixed(seconds, seconds > 0 && seconds < 10 ? 1 : 0)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const whole = Math.round(seconds);
  const first = units.findIndex(([size]) => whole >= size);
  const [size, name] = units[first];
  const [restSize, restName] = units[first + 1];
  const rest = Math.floor((whole % size) / restSize);
  return `${fixed(Math.floor(whole / size), 0)} ${name}${rest ? ` ${rest} ${restName}` : ""}`;
}

export function money(value, currency) {
  if (!isKnown(value)) return NOTHING;
  if (value < 0) return `−${money(-value, currency)}`;
  if (value > 0 && value < 0.01) return `< ${currency}0.01`;
  return currency + fixed(value, value < 1000 ? 2 : 0);
}

export function clock(wallMs) {
  return new Date(wallMs).toLocaleTimeString("en-GB");
}

export function host(url) {
  return url.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// "58% sooner", "1.4× as long"; in words, so that nobody has to know which direction is good.
export function comparedTime(value, other) {
  if (!isKnown(value) || !isKnown(other) || other <= 0) return "";
  const change = value / other - 1;
  if (Math.abs(change) < 0.01) return "as soon as";
  return change < 0 ? `${percent(-change)} sooner than` : `${percent(change)} later than`;
}

export function comparedShare(value, other) {
  if (!isKnown(value) || !isKnown(other)) return "";
  const points = (value - other) * 100;
  if (Math.abs(points) < 0.5) return "as many as";
  return `${fixed(Math.abs(points), 0)} points ${points > 0 ? "more" : "fewer"} than`;
}
