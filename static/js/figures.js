// Hosts of charts: <div data-chart="id of a JSON block">. The block carries data and
// meaning; colours, fonts and number formats are given here, again on every change
// of theme.
import { dress } from "./dress.js";
import { hiddenIn, remember } from "./state.js";

// host element -> { chart, observer }
const charts = new Map();

function optionOf(host) {
  const block = document.getElementById(host.dataset.chart);
  return block ? JSON.parse(block.textContent) : null;
}

function create(echarts, host) {
  // On an inner element without an id: htmx copies the style of elements with ids
  // to their successors by attribute, which the Content-Security-Policy refuses.
  host.replaceChildren(document.createElement("div"));
  const chart = echarts.init(host.firstElementChild, null, { renderer: "canvas" });
  if (host.dataset.group) {
    chart.group = host.dataset.group;
    echarts.connect(host.dataset.group);
  }
  const observer = new ResizeObserver(() => chart.resize());
  observer.observe(host);
  charts.set(host, { chart, observer });
  return chart;
}

// zoomOf is where a chart is zoomed to now.
function zoomOf(chart) {
  const [{ start, end }] = chart.getOption().dataZoom;
  return { start, end };
}

function draw(echarts, host, restyle) {
  const raw = optionOf(host);
  if (!raw) return;
  const option = dress(raw, host);
  const known = charts.get(host);
  if (known) {
    // The viewer's zoom stays; a new theme also has colours for its slider.
    if (restyle && option.dataZoom) {
      const zoom = zoomOf(known.chart);
      option.dataZoom = option.dataZoom.map((z) => ({ ...z, ...zoom }));
    } else {
      delete option.dataZoom;
    }
    delete option.legend.selected; // and so do the lines that were switched off
    known.chart.setOption(option, { replaceMerge: ["series"], lazyUpdate: true });
    return;
  }
  const chart = create(echarts, host);
  const hidden = hiddenIn(location.search);
  option.legend.selected = Object.fromEntries(option.legend.data.map(({ name }) => [name, !hidden.has(name)]));
  chart.setOption(option);
  if (host.dataset.group) chart.on("legendselectchanged", (event) => remember(event.selected));
}

function drawAll(echarts, restyle) {
  // Nothing says when a host has left the page, so those that did are found here.
  for (const [host, { chart, observer }] of charts) {
    if (host.isConnected) continue;
    observer.disconnect();
    chart.dispose();
    charts.delete(host);
  }
  for (const host of document.querySelectorAll("[data-chart]")) draw(echarts, host, restyle);
}

export function start(echarts) {
  const again = () => drawAll(echarts, false);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", again);
  else again();
  document.addEventListener("htmx:after:swap", again);
  document.addEventListener("theme:change", () => drawAll(echarts, true));
}
