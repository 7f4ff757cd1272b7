// Gives an option from the server its looks.
import { moment, tick, withUnit } from "./format.js";

// Every "var(--name)" in an option becomes the theme's value, and a line type such
// as "8 4" becomes a list of dashes.
function resolve(value, style) {
  if (typeof value === "string") {
    const match = /^var\((--[\w-]+)\)$/.exec(value);
    return match ? style.getPropertyValue(match[1]).trim() : value;
  }
  if (Array.isArray(value)) return value.map((v) => resolve(v, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === "source" ? v : resolve(v, style)]));
  }
  return value;
}

function dashes(series) {
  const type = series.lineStyle?.type;
  if (type && /^\d/.test(type)) series.lineStyle.type = type.split(" ").map(Number);
}

// A line needs two points. A step with samples between two without has none to go
// to, so it is drawn as a dot.
function lonely(series, rows) {
  const y = series.encode.y;
  const has = (i) => i >= 0 && i < rows.length && rows[i][y] !== null;
  const alone = new Set();
  for (let i = 0; i < rows.length; i++) {
    if (has(i) && !has(i - 1) && !has(i + 1)) alone.add(i);
  }
  if (alone.size && !series.name.startsWith("_") && series.stack !== "spread") {
    series.showSymbol = true;
    series.showAllSymbol = true;
    series.symbol = "circle";
    series.symbolSize = (_, point) => (alone.has(point.dataIndex) ? 5 : 0);
  } else {
    series.symbol = "none";
  }
}

const merge = (into, more) => ({ ...more, ...into });

export function dress(raw, host) {
  const style = getComputedStyle(document.documentElement);
  const option = resolve(raw, style);
  const get = (name) => style.getPropertyValue(name).trim();
  const text = get("--chart-text");
  const line = get("--chart-line");
  const unit = host.dataset.unit ?? "";

  option.textStyle = { fontFamily: getComputedStyle(host).fontFamily, fontSize: 12, color: text };
  option.aria = { enabled: true, label: { description: host.getAttribute("aria-label") } };
  // A shaded area has a patch in the legend, not a line.
  const areas = new Set((option.series ?? []).filter((s) => s.areaStyle).map((s) => s.name));
  const lines = new Set((option.series ?? []).filter((s) => s.type === "line").map((s) => s.name));
  option.legend = merge(option.legend ?? {}, {
    textStyle: { color: text, fontSize: 12 },
    inactiveColor: get("--line-strong"),
    inactiveBorderColor: get("--line-strong"),
    itemGap: 14,
    pageIconColor: text,
    pageIconInactiveColor: get("--line-strong"),
    pageIconSize: 10,
    pageTextStyle: { color: text, fontSize: 11 },
  });
  option.legend.data = option.legend.data.map((name) =>
    areas.has(name) ? { name, icon: "roundRect" } : { name, itemStyle: { opacity: lines.has(name) ? 0 : 1 } },
  );
  option.xAxis = [option.xAxis].flat().map((axis) =>
    merge(axis, {
      axisLine: { lineStyle: { color: line } },
      axisTick: { show: false },
      axisLabel: { color: text, hideOverlap: true, margin: 12 },
      splitLine: { show: false },
    }),
  );
  const objective = objectiveOf(option);
  option.yAxis = [option.yAxis].flat().map((axis) =>
    merge(axis, {
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: text, formatter: (v) => tick(v, unit) },
      splitLine: { lineStyle: { color: line } },
      splitNumber: 4,
      ...(axis.max === 100 ? { interval: 25 } : { max: (extent) => roomFor(objective, extent.max) }),
    }),
  );
  for (const series of option.series ?? []) {
    dashes(series);
    if (series.type === "line") lonely(series, [option.dataset].flat()[0]?.source ?? []);
    series.emphasis = { disabled: true };
    if (series.markLine) {
      series.markLine.silent = true;
      series.markLine.animation = false;
      series.markLine.z = 5;
      series.markLine.label = { ...series.markLine.label, fontSize: 11, padding: [2, 4], backgroundColor: get("--color-base-100") };
    }
  }
  if (option.events?.length) option.series.push(happened(option.events, text));
  for (const key of ["events", "said", "samples"]) delete option[key];
  const order = option.legend.data.map(({ name }) => name);
  option.tooltip = merge(option.tooltip ?? {}, {
    // The default writes HTML with style attributes, which the policy refuses.
    renderMode: "richText",
    confine: true,
    backgroundColor: get("--color-base-100"),
    borderColor: get("--line-strong"),
    borderWidth: 1,
    padding: [8, 12],
    textStyle: { color: get("--color-base-content"), fontSize: 12, fontFamily: option.textStyle.fontFamily },
    formatter: (params) => describe([params].flat(), unit, order, raw),
  });
  option.tooltip.axisPointer = merge(option.tooltip.axisPointer ?? {}, { lineStyle: { color: text, width: 1, type: [3, 3] } });
  if (option.dataZoom) option.dataZoom = option.dataZoom.map((zoom) => dressZoom(zoom, get));
  return option;
}

function dressZoom(zoom, get) {
  if (zoom.type === "inside") {
    // The bare wheel scrolls the page, and a drag picks a piece.
    return { ...zoom, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: false };
  }
  return {
    ...zoom,
    height: 12,
    bottom: 4,
    showDetail: false,
    showDataShadow: false,
    brushSelect: true,
    borderColor: get("--chart-line"),
    backgroundColor: "transparent",
    fillerColor: get("--tint-primary"),
    handleSize: "120%",
    handleStyle: { color: get("--color-base-100"), borderColor: get("--line-strong") },
    moveHandleSize: 0,
    brushStyle: { color: get("--tint-primary") },
  };
}

// Marks of events hang on a line of their own that is never drawn or named.
function happened(events, text) {
  return {
    name: "_events",
    type: "line",
    data: [],
    markLine: {
      silent: true,
      animation: false,
      symbol: "none",
      lineStyle: { color: text, width: 1, type: [2, 4] },
      label: { show: true, formatter: "{b}", position: "insideEndTop", fontSize: 10, color: text },
      data: events.map(({ at, kind }) => ({ name: kind, xAxis: at })),
    },
  };
}

const objectiveOf = (option) => option.series?.flatMap((s) => s.markLine?.data ?? [])[0]?.yAxis;

// An axis follows its data, and makes room for an objective that is near: one far
// above would press the lines flat, and stands beside the title anyway.
function roomFor(objective, most) {
  if (!objective || most >= objective || objective > 3 * most) return null;
  const size = 10 ** Math.floor(Math.log10(objective));
  return Math.ceil((objective * 1.05) / size) * size;
}

// describe writes a tooltip: when, each line's value, and how many samples they rest on.
function describe(params, unit, order, { said = {}, samples = false }) {
  const shown = params
    .filter((p) => order.includes(p.seriesName))
    .sort((a, b) => order.indexOf(a.seriesName) - order.indexOf(b.seriesName));
  if (!shown.length) return "";
  const [first] = shown;
  const row = first.value;
  const when = typeof row[0] === "number" ? moment(row[0]) : row[0];
  const lines = shown.map((p) => {
    const column = [p.encode.y].flat()[0];
    return `${p.marker}${p.seriesName}   ${said[p.seriesName]?.[p.dataIndex] ?? withUnit(p.value[column], unit)}`;
  });
  const count = samples ? `\n${withUnit(row.at(-1), row.at(-1) === 1 ? "sample" : "samples")}` : "";
  return `${when}\n${lines.join("\n")}${count}`;
}

// say writes a step of an option from the server in a sentence, without the lines that are
// switched off.
export function say(raw, i, unit, hidden) {
  const value = [raw.dataset].flat()[0].source[i];
  const params = raw.series.map(({ name, encode }) => ({ seriesName: name, value, encode, dataIndex: i, marker: "" }));
  const order = raw.legend.data.filter((name) => !hidden.has(name));
  return describe(params, unit, order, raw).replaceAll("   ", " ").replaceAll("\n", ", ");
}
