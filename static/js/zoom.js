// Zoom: the piece that somebody picks on a chart is read anew in finer steps, and all
// figures of the page with it. It is part of the address, so that Back, a link and a
// refresh keep it.

// A drag tells every move; the piece is read when this much time went by without one.
const pause = 300;

// Pieces end at the finest steps that are measured.
const grain = 10_000;

let moved = null; // the chart whose zoom is not read yet
let pressed = false; // on a chart
let timer = 0;

const live = () => document.getElementById("metrics-live");

// picking reports whether somebody is about to choose a piece. What arrives meanwhile
// must not move the charts under the hand.
export const picking = () => pressed || moved !== null;

// zoomNow is the piece that the page shows.
export const zoomNow = () => live()?.dataset.zoom ?? "";

export const zoomable = () => live() !== null;

// endsOf is what a chart holds, and the piece of it that is in sight.
export function endsOf(chart) {
  const { xAxis, dataZoom } = chart.getOption();
  const { min, max } = xAxis[0];
  const { start, end } = dataZoom[0];
  const at = (share) => min + ((max - min) * share) / 100;
  return { min, max, from: at(start), to: at(end) };
}

// load shows another window, and makes it a step back in the history when asked to.
function load(url, push) {
  const path = url.pathname + url.search;
  return window.htmx.ajax("GET", path, { source: "#metrics", target: "#metrics", swap: "outerMorph", push: push ? path : undefined });
}

const instant = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");

// show shows a piece of time, or the whole range for null.
export async function show(piece) {
  const url = new URL(location.href);
  const { zoom, whole } = live().dataset;
  if (piece && piece.to - piece.from < Number(whole)) {
    const from = Math.floor(piece.from / grain) * grain;
    const to = Math.ceil(piece.to / grain) * grain;
    url.searchParams.set("zoom", `${instant(from)}/${instant(to)}`);
  } else if (zoom) {
    url.searchParams.delete("zoom");
  } else {
    return;
  }
  await load(url, true);
  // The link that was followed is gone with the zoom.
  if (document.activeElement === document.body) document.querySelector(".metrics-asof")?.focus();
}

// caughtUp has the charts show what arrived meanwhile.
const caughtUp = () => document.dispatchEvent(new CustomEvent("zoom:none"));

function settle() {
  if (pressed) return;
  if (!moved) {
    caughtUp();
    return;
  }
  const { min, max, from, to } = endsOf(moved);
  moved = null;
  // Somebody who dragged there and back wants what is there, as new as it is now.
  if (to - from > 0.995 * (max - min)) caughtUp();
  else show({ from, to });
}

const soon = () => {
  clearTimeout(timer);
  timer = setTimeout(settle, pause);
};

// follow reads the pieces that are picked on a chart.
export function follow(chart) {
  chart.on("datazoom", () => {
    moved = chart;
    soon();
  });
}

export function start() {
  const press = (event) => {
    pressed = event.target.closest?.("[data-chart]") != null;
  };
  const release = () => {
    if (pressed) soon();
    pressed = false;
  };
  document.addEventListener("pointerdown", press, true);
  document.addEventListener("pointerup", release, true);
  document.addEventListener("pointercancel", release, true);
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || !event.target.closest("a[data-zoom-reset]")) return;
    event.preventDefault();
    show(null);
  });
  // Only the tab changed between these two steps of the history, so only it is read.
  document.addEventListener("htmx:before:history:restore", (event) => {
    if (!zoomable()) return;
    event.preventDefault();
    load(new URL(location.href), false);
  });
}
