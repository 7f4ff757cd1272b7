// Charts by keyboard: a crosshair that is moved step by step, what it stands on in
// words, and the zoom.
import { endsOf, show, zoomable, zoomNow } from "./zoom.js";

const reading = "← → to read the steps";
const zooming = `${reading} · + − to zoom · 0 for the whole range · T for the table`;

// listen gives a chart's host its keys. say writes a step in words, as the tooltip does.
export function listen(chart, host, say) {
  const timed = chart.getOption().dataZoom?.length > 0 && zoomable();
  // Screen readers keep the arrow keys to themselves on anything that is no application.
  host.setAttribute("role", "application");
  host.setAttribute("aria-roledescription", "chart");
  host.setAttribute("aria-description", timed ? zooming : reading);
  host.tabIndex = 0;
  const keys = document.createElement("p");
  keys.className = "chart-keys";
  keys.setAttribute("aria-hidden", "true");
  keys.textContent = timed ? zooming : reading;
  const said = document.createElement("p");
  said.className = "sr-only";
  said.setAttribute("aria-live", "polite");
  host.append(keys, said);

  let at = null; // what the crosshair stands on: a moment, or a category
  const rows = () => chart.getOption().dataset[0].source;

  // visible are the first and the last step in sight.
  function visible(steps) {
    if (!timed) return [0, steps.length - 1];
    const { from, to } = endsOf(chart);
    const last = steps.findLastIndex(([t]) => t <= to);
    return [Math.min(Math.max(0, steps.findIndex(([t]) => t >= from)), last), last];
  }

  function stand(move) {
    const steps = rows();
    const [first, last] = visible(steps);
    if (last < 0) return;
    const before = steps.findIndex(([t]) => t === at);
    const next = move(before, first, last);
    const i = Math.min(Math.max(next, first), last);
    at = steps[i][0];
    const x = chart.convertToPixel({ xAxisIndex: 0 }, typeof at === "number" ? at : i);
    chart.dispatchAction({ type: "showTip", x, y: chart.getHeight() / 2 });
    said.textContent = say(i);
  }

  function hide() {
    chart.dispatchAction({ type: "hideTip" });
    chart.dispatchAction({ type: "updateAxisPointer", currTrigger: "leave" });
  }

  // scale zooms around the crosshair, or around the middle without one.
  async function scale(by) {
    const { min, max, from, to } = endsOf(chart);
    const middle = typeof at === "number" && at >= from && at <= to ? at : (from + to) / 2;
    const half = ((to - from) * by) / 2;
    if (by > 1 && !zoomNow() && to - from >= max - min) return;
    await show({ from: middle - half, to: middle + half });
    said.textContent = document.querySelector(".metrics-asof")?.innerText ?? "";
  }

  const step = {
    ArrowLeft: (i, first, last) => (i < 0 ? last : i - 1),
    ArrowRight: (i, first) => (i < 0 ? first : i + 1),
    Home: (i, first) => first,
    End: (i, first, last) => last,
  };
  const does = {
    "+": () => scale(1 / 2),
    "=": () => scale(1 / 2),
    "-": () => scale(2),
    0: () => show(null),
    Escape: () => show(null),
    t: () => {
      const url = new URL(location.href);
      url.searchParams.set("view", "table");
      location.assign(url);
    },
  };
  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (step[key]) stand(step[key]);
    else if (timed && does[key]) does[key]();
    else return;
    event.preventDefault();
  });
  host.addEventListener("blur", () => {
    hide();
    said.textContent = "";
  });
}
