// A piece of time is picked by drawing over the lines of a chart from side to side.
import { show } from "./zoom.js";

// A hand that clicks moves a little.
const least = 5;

export function pick(chart, host) {
  const band = document.createElement("div");
  band.className = "chart-band";
  band.hidden = true;
  host.append(band);
  let from = null; // where the mouse was pressed, in pixels

  const across = (event) => event.clientX - host.getBoundingClientRect().left;
  const onLines = (event) => chart.containPixel({ gridIndex: 0 }, [across(event), event.clientY - host.getBoundingClientRect().top]);
  const momentAt = (x) => {
    const { min, max } = chart.getOption().xAxis[0];
    return Math.min(Math.max(chart.convertFromPixel({ xAxisIndex: 0 }, x), min), max);
  };

  function drop() {
    from = null;
    band.hidden = true;
  }

  host.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0 && onLines(event)) from = across(event);
  });
  host.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = across(event);
    if (band.hidden && Math.abs(to - from) < least) return;
    if (band.hidden) chart.dispatchAction({ type: "hideTip" });
    // From here on the drag is ours, wherever the mouse goes.
    host.setPointerCapture(event.pointerId);
    const edges = [from, to].map((x) => chart.convertToPixel({ xAxisIndex: 0 }, momentAt(x))).sort((a, b) => a - b);
    band.hidden = false;
    band.style.left = `${edges[0]}px`;
    band.style.width = `${edges[1] - edges[0]}px`;
  });
  host.addEventListener("pointerup", (event) => {
    if (from !== null && !band.hidden) {
      const [begin, end] = [momentAt(from), momentAt(across(event))].sort((a, b) => a - b);
      show({ from: begin, to: end });
    }
    drop();
  });
  host.addEventListener("pointercancel", drop);
}
