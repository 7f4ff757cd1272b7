// Hosts of charts: <div data-chart="id of a JSON block">. The block carries data and
// meaning; colours, fonts and number formats are given here, again on every change
// of theme.
import { dress, say } from "./dress.js";
import { listen } from "./keys.js";
import { pick } from "./pick.js";
import { hiddenIn, remember } from "./state.js";
import { follow, picking, start as startZoom, zoomable, zoomNow } from "./zoom.js";

// host element -> { chart, raw }
const charts = new Map();

// The zoom that was drawn last: charts that come with another one show all they have.
let drawn = "";

function optionOf(host) {
  const block = document.getElementById(host.dataset.chart);
  return block ? JSON.parse(block.textContent) : null;
}

// A box that is not laid out, as in a folded part of the page, has no size. The chart
// library would read "100%" as 100 pixels, so it is asked only when there is one.
const laidOut = (host) => host.clientWidth > 0 && host.clientHeight > 0;

function create(echarts, host) {
  // On an inner element without an id: htmx copies the style of elements with ids
  // to their successors by attribute, which the Content-Security-Policy refuses.
  host.replaceChildren(document.createElement("div"));
  const chart = echarts.init(host.firstElementChild, null, { renderer: "canvas" });
  if (host.dataset.group) {
    chart.group = host.dataset.group;
    echarts.connect(host.dataset.group);
  }
  return chart;
}

// zoomOf is where a chart is zoomed to now.
function zoomOf(chart) {
  const [{ start, end }] = chart.getOption().dataZoom;
  return { start, end };
}

const whole = { start: 0, end: 100 };

function draw(echarts, host, { restyle, fresh }) {
  const raw = optionOf(host);
  if (!raw) return;
  const option = dress(raw, host);
  const known = charts.get(host);
  if (known) {
    known.raw = raw;
    // The viewer's zoom stays; a new theme also has colours for its slider.
    if (option.dataZoom && (restyle || fresh)) {
      const zoom = fresh ? whole : zoomOf(known.chart);
      option.dataZoom = option.dataZoom.map((z) => ({ ...z, ...zoom }));
    } else {
      delete option.dataZoom;
    }
    delete option.legend.selected; // and so do the lines that were switched off
    // Not lazily: a slider that is drawn anew a moment later slips from the hand that took it.
    known.chart.setOption(option, { replaceMerge: ["series"] });
    return;
  }
  if (!laidOut(host)) return;
  const chart = create(echarts, host);
  const kept = { chart, raw };
  charts.set(host, kept);
  const hidden = hiddenIn(location.search);
  option.legend.selected = Object.fromEntries(option.legend.data.map(({ name }) => [name, !hidden.has(name)]));
  chart.setOption(option);
  if (host.dataset.group) chart.on("legendselectchanged", (event) => remember(event.selected));
  if (option.dataZoom && zoomable()) {
    follow(chart);
    pick(chart, host);
  }
  listen(chart, host, (i) => say(kept.raw, i, host.dataset.unit ?? "", hiddenIn(location.search)));
}

// sized draws a chart when its host gets a size, and fits it to every later one.
function sized(echarts) {
  return new ResizeObserver((entries) => {
    for (const { target: host } of entries) {
      if (!host.isConnected || !laidOut(host)) continue;
      if (charts.has(host)) charts.get(host).chart.resize();
      else draw(echarts, host, {});
    }
  });
}

export function start(echarts) {
  const sizes = sized(echarts);

  function drawAll(restyle) {
    // Nothing says when a host has left the page, so those that did are found here.
    for (const [host, { chart }] of charts) {
      if (host.isConnected) continue;
      sizes.unobserve(host);
      chart.dispose();
      charts.delete(host);
    }
    const fresh = zoomNow() !== drawn;
    drawn = zoomNow();
    for (const host of document.querySelectorAll("[data-chart]")) {
      draw(echarts, host, { restyle, fresh });
      sizes.observe(host);
    }
  }

  const again = () => {
    if (!picking()) drawAll(false);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", again);
  else again();
  document.addEventListener("htmx:after:swap", again);
  document.addEventListener("zoom:none", again);
  document.addEventListener("theme:change", () => drawAll(true));
  startZoom();
}
