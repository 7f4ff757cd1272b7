// Numbers as the server writes them: three significant digits and a unit.
export function significant(v) {
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 99.95) return Math.round(v).toLocaleString("en-US");
  return v.toFixed(a >= 9.995 ? 1 : 2);
}

function shorten(v) {
  for (const [size, letter] of [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(v) >= size) return `${Number((v / size).toPrecision(3))}${letter}`;
  }
  return String(Number(v.toPrecision(3)));
}

export function withUnit(v, unit) {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (unit === "ms") {
    if (v < 999.5) return `${significant(v)} ms`;
    if (v < 59950) return `${significant(v / 1000)} s`;
    return `${significant(v / 60000)} min`;
  }
  if (unit === "%") return `${significant(v)} %`;
  const figure = Math.abs(v) >= 1 ? v.toLocaleString("en-US", { maximumFractionDigits: 2 }) : String(v);
  return unit ? `${figure} ${unit}` : figure;
}

// Ticks are round numbers, so they are written short.
export function tick(v, unit) {
  if (v === 0 && unit !== "%") return "0";
  const plain = (x) => String(Number(x.toPrecision(4)));
  if (unit === "ms") {
    if (v < 1000) return `${plain(v)} ms`;
    if (v < 60000) return `${plain(v / 1000)} s`;
    return `${plain(v / 60000)} min`;
  }
  if (unit === "%") return `${plain(v)} %`;
  return shorten(v);
}

const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const moment = (ms) => `${day.format(ms)}, ${clock.format(ms)}`;
