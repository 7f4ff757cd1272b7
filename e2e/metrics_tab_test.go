package e2e

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/playwright-community/playwright-go"
)

// The Metrics tab in a browser, on the demo: what a person does there with mouse and
// keyboard, in every look.
func TestMetricsTab(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, d *demo)
	}{
		{"a range is picked", metricsRange},
		{"a zoom reads finer data", metricsZoom},
		{"a refresh keeps what is there", metricsRefresh},
		{"a refresh keeps the zoom", metricsRefreshZoomed},
		{"a refresh waits for a drag", metricsRefreshInDrag},
		{"a gap is a gap", metricsGap},
		{"the table has the same numbers", metricsTable},
		{"keys", metricsKeys},
		{"looks", metricsLooks},
		{"no script", metricsWithoutScript},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, d) })
	}
}

// metricsTab opens the tab of one of the demo's deployments and waits for its charts.
func metricsTab(t *testing.T, d *demo, deployment int, query string, l look) *visitor {
	t.Helper()
	v := newVisitor(t, d.Console, l)
	v.signIn(d.Operator)
	v.open("/deployments/" + d.Deployments[deployment].ID + "/metrics?" + query)
	if !strings.Contains(query, "view=table") {
		v.must(v.page.Locator("#chart-e2e canvas").First().WaitFor())
	}
	return v
}

// drawn is what a chart of the page holds.
type drawn struct {
	Min, Max   float64 // of the axis, in ms
	Start, End float64 // of what is in sight, in percent
	Points     int
	Step       float64 // ms between two points
}

const chartJS = `id => { const o = echarts.getInstanceByDom(document.querySelector("#chart-" + id + " > div")).getOption(), rows = o.dataset[0].source;
	return [o.xAxis[0].min, o.xAxis[0].max, o.dataZoom[0].start, o.dataZoom[0].end, rows.length, rows[1][0] - rows[0][0]] }`

func (v *visitor) chart(id string) drawn {
	v.t.Helper()
	found, err := v.page.Evaluate(chartJS, id)
	v.must(err)
	n := make([]float64, 6)
	for i, x := range found.([]any) {
		if _, err := fmt.Sscan(fmt.Sprint(x), &n[i]); err != nil {
			v.t.Fatalf("chart %s: %v", id, found)
		}
	}
	return drawn{n[0], n[1], n[2], n[3], int(n[4]), n[5]}
}

func (c drawn) span() time.Duration { return time.Duration(c.Max-c.Min) * time.Millisecond }

// drag presses the mouse at one share of a chart's width and moves it to another, without
// letting go. It does so so many pixels above the chart's lower edge.
func (v *visitor) drag(id string, above, from, to float64) {
	v.t.Helper()
	host := v.page.Locator("#chart-" + id)
	v.must(host.ScrollIntoViewIfNeeded())
	box, err := host.BoundingBox()
	v.must(err)
	// The lines keep 60 pixels to the left and 16 to the right.
	x := func(share float64) float64 { return box.X + 60 + share*(box.Width-76) }
	y := box.Y + box.Height - above
	v.must(v.page.Mouse().Move(x(from), y))
	v.must(v.page.Mouse().Down())
	v.must(v.page.Mouse().Move(x(to), y, playwright.MouseMoveOptions{Steps: playwright.Int(6)}))
}

// Heights above a chart's lower edge.
const (
	onLines  = 100
	onSlider = 10
)

var inAddress = func(parameter string) *regexp.Regexp { return regexp.MustCompile(`[?&]` + parameter + `=`) }

// says waits until the line above the cards says something.
func (v *visitor) says(text string) {
	v.t.Helper()
	v.must(v.page.Locator(".metrics-asof", playwright.PageLocatorOptions{HasText: text}).WaitFor())
}

// refreshed waits until the page has read itself anew and shows it.
func (v *visitor) refreshed() {
	v.t.Helper()
	_, err := v.page.Evaluate(`() => new Promise(done => document.addEventListener("htmx:after:swap", done, { once: true })).then(() => true)`)
	v.must(err)
}

func metricsRange(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=15m", look{})
	if got := v.chart("e2e"); (got.span()-15*time.Minute).Abs() > 10*time.Second || got.Step != 10_000 {
		t.Errorf("15 minutes: %+v", got)
	}
	v.must(v.page.Locator(".segments a", playwright.PageLocatorOptions{HasText: "6 h"}).Click())
	v.must(v.page.WaitForURL(regexp.MustCompile(`range=6h`)))
	v.must(v.page.Locator("#chart-e2e canvas").First().WaitFor())
	v.says("one point every 1 min")
	if got := v.chart("e2e"); (got.span()-6*time.Hour).Abs() > time.Minute || got.Step != 60_000 {
		t.Errorf("6 hours: %+v", got)
	}
	if got := v.text(`.segments a[aria-current]`); got != "6 h" {
		t.Errorf("the chosen range is %q", got)
	}
	v.clean()
}

func metricsZoom(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=6h", look{})
	before := v.chart("ttft")
	v.drag("ttft", onLines, 0.5, 0.6)
	v.must(v.page.Mouse().Up())
	v.must(v.page.WaitForURL(inAddress("zoom")))
	v.says("one point every 10 s")
	for _, id := range []string{"ttft", "e2e", "requests"} {
		v.wait("chart "+id+" shows the piece", func() bool { c := v.chart(id); return c.Step == 10_000 && c.End-c.Start == 100 })
		c := v.chart(id)
		if c.Step >= before.Step || c.Points < 150 || c.span() < 30*time.Minute || c.span() > 42*time.Minute {
			t.Errorf("%s shows %s in %d points, %.0f ms apart", id, c.span(), c.Points, c.Step)
		}
		if middle := before.Min + (before.Max-before.Min)*0.55; c.Min > middle || c.Max < middle {
			t.Errorf("%s shows another piece than was picked", id)
		}
	}
	for name, selector := range map[string]string{"CSV": ".metrics-view a[href*='.csv']", "table": ".metrics-view a[href*='view=table']"} {
		if href, err := v.page.Locator(selector).GetAttribute("href"); err != nil || !strings.Contains(href, "zoom=") {
			t.Errorf("the %s is of the whole range: %v %v", name, href, err)
		}
	}
	// What is picked again lies in the piece.
	v.drag("ttft", onLines, 0.2, 0.4)
	v.must(v.page.Mouse().Up())
	v.wait("a piece of the piece", func() bool { return v.chart("ttft").span() < 10*time.Minute })
	_, err := v.page.GoBack()
	v.must(err)
	v.wait("the piece before is back", func() bool { c := v.chart("ttft"); return c.span() > 30*time.Minute && c.span() < 42*time.Minute })
	_, err = v.page.GoBack()
	v.must(err)
	v.says("one point every 1 min")
	v.wait("the whole range is back", func() bool { return v.chart("e2e").Step == 60_000 })
	if strings.Contains(v.page.URL(), "zoom=") {
		t.Errorf("the address is still %s", v.page.URL())
	}
	_, err = v.page.GoForward()
	v.must(err)
	v.says("one point every 10 s")
	v.must(v.page.Locator("a[data-zoom-reset]").Click())
	v.says("one point every 1 min")
	v.must(v.page.WaitForURL(regexp.MustCompile(`range=6h$`)))
	v.wait("all is drawn again", func() bool { return v.chart("itl").Step == 60_000 })
	v.clean()
}

// A refresh gives new figures and does not draw anew: charts outlive it, and so does what
// was unfolded.
func metricsRefresh(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=15m", look{})
	charts, err := v.page.Locator("[data-chart] canvas").Count()
	v.must(err)
	for _, id := range []string{"ttft", "itl", "e2e", "kv_cache", "requests", "tokens"} {
		n, err := v.page.Locator("#chart-" + id + " canvas").Count()
		v.must(err)
		if n != 1 {
			t.Errorf("%d charts of %s", n, id)
		}
	}
	_, err = v.page.Evaluate(`document.querySelectorAll("[data-chart] canvas").forEach(c => { c.keptByTest = true })`)
	v.must(err)
	guide := v.page.Locator(".metrics-guide").First()
	v.must(guide.Locator("summary").Click())
	samples := func() string { return v.text(`[data-card="ttft"]`) }
	before, old := samples(), v.chart("ttft")
	v.wait("the card shows newer figures", func() bool { return samples() != before })
	v.wait("the chart has moved on", func() bool { return v.chart("ttft").Max > old.Max })
	kept, err := v.page.Evaluate(`[...document.querySelectorAll("[data-chart] canvas")].filter(c => c.keptByTest).length`)
	v.must(err)
	if fmt.Sprint(kept) != fmt.Sprint(charts) {
		t.Errorf("%v of %d charts outlived the refresh", kept, charts)
	}
	if open, err := guide.GetAttribute("open"); err != nil || open != "" {
		t.Errorf("the refresh folded what was unfolded: %q %v", open, err)
	}
	if n, err := guide.Evaluate(`d => d.open`, nil); err != nil || n != true {
		t.Errorf("the refresh folded what was unfolded: %v %v", n, err)
	}
	v.clean()
}

// ago is a piece of time as the address has it.
func ago(from, to time.Duration) string {
	now := time.Now().UTC().Truncate(10 * time.Second)
	return "zoom=" + url.QueryEscape(now.Add(-from).Format(time.RFC3339)+"/"+now.Add(-to).Format(time.RFC3339))
}

func metricsRefreshZoomed(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=15m&"+ago(10*time.Minute, 5*time.Minute), look{})
	address, before := v.page.URL(), v.chart("ttft")
	if before.span() != 5*time.Minute {
		t.Errorf("a link to a piece shows %s", before.span())
	}
	v.refreshed()
	v.refreshed()
	if after := v.chart("ttft"); after != before {
		t.Errorf("the refresh turned %+v into %+v", before, after)
	}
	if v.page.URL() != address {
		t.Errorf("the address has become %s", v.page.URL())
	}
	if n, err := v.page.Locator("a[data-zoom-reset]").Count(); err != nil || n != 1 {
		t.Errorf("%d ways out of the zoom, %v", n, err)
	}
	v.clean()
}

func metricsRefreshInDrag(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=15m", look{})
	v.drag("ttft", onLines, 0.5, 0.2)
	v.must(v.page.Mouse().Up())
	v.must(v.page.WaitForURL(inAddress("zoom")))
	v.wait("the piece is drawn", func() bool { c := v.chart("ttft"); return c.End-c.Start == 100 && c.span() < 6*time.Minute })
	// The right handle of the slider follows the hand while it is held. It is taken right
	// after a refresh, which may move the page.
	v.refreshed()
	v.drag("ttft", onSlider, 1, 0.6)
	v.wait("the piece follows the hand", func() bool { return v.chart("ttft").End < 70 })
	held := v.chart("ttft")
	v.refreshed()
	v.refreshed()
	if now := v.chart("ttft"); now != held {
		t.Errorf("a refresh moved the chart under the hand: %+v, then %+v", held, now)
	}
	address := v.page.URL()
	v.must(v.page.Mouse().Up())
	v.wait("the piece is read when the hand lets go", func() bool { return v.page.URL() != address && v.chart("ttft").End == 100 })
	v.clean()
}

// A time without requests has no value in what the chart holds, and nothing is drawn there.
func metricsGap(t *testing.T, d *demo) {
	v := metricsTab(t, d, 2, "range=1h", look{})
	found, err := v.page.Evaluate(`() => {
		const chart = echarts.getInstanceByDom(document.querySelector("#chart-e2e > div"));
		const option = chart.getOption(), rows = option.dataset[0].source;
		const lines = option.series.filter(s => /^p\d\d$/.test(s.name));
		const empty = r => [1, 2, 3, 4].every(c => r[c] === null);
		const first = rows.findIndex(r => !empty(r)), last = rows.findLastIndex(r => !empty(r));
		const gaps = [];
		for (let i = first; i <= last; i++) if ([-4, -3, -2, -1, 0, 1, 2, 3, 4].every(o => rows[i + o] && empty(rows[i + o]))) gaps.push(i);
		const filled = rows.findIndex(r => r[1] !== null);
		const canvas = document.querySelector("#chart-e2e canvas"), ratio = canvas.width / canvas.clientWidth;
		const colours = lines.map(l => { const c = new OffscreenCanvas(1, 1).getContext("2d"); c.fillStyle = l.itemStyle.color; c.fillRect(0, 0, 1, 1); return c.getImageData(0, 0, 1, 1).data });
		const inked = (i, y) => {
			const x = Math.round(chart.convertToPixel({ xAxisIndex: 0 }, rows[i][0]) * ratio), top = 40 * ratio, height = canvas.height - 90 * ratio;
			const data = canvas.getContext("2d").getImageData(x - 2, top, 5, height).data;
			for (let p = 0; p < data.length; p += 4)
				if (colours.some(c => data[p + 3] > 200 && Math.abs(c[0] - data[p]) + Math.abs(c[1] - data[p + 1]) + Math.abs(c[2] - data[p + 2]) < 24)) return true;
			return false;
		};
		return { gaps: gaps.length, connected: lines.filter(l => l.connectNulls !== false).length, lines: lines.length,
			zeros: rows.filter(r => r[1] === 0).length, ink: gaps.filter(inked).length, seen: inked(filled) };
	}`)
	v.must(err)
	got := found.(map[string]any)
	if n := got["gaps"].(int); n == 0 {
		t.Fatalf("a deployment that is asked once a minute has no gaps: %v", got)
	}
	if got["connected"] != 0 || got["lines"] != 4 || got["zeros"] != 0 {
		t.Errorf("gaps are joined or drawn as zero: %v", got)
	}
	if got["ink"] != 0 || got["seen"] != true {
		t.Errorf("something is drawn where nothing was measured, or nothing where something was: %v", got)
	}
	v.clean()
}

func metricsTable(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=15m&"+ago(10*time.Minute, 5*time.Minute), look{})
	samples := v.text(`[data-card="ttft"] .card-metric-remarks li:last-child`)
	v.must(v.page.Locator(".segments a", playwright.PageLocatorOptions{HasText: "Table"}).Click())
	v.must(v.page.WaitForURL(inAddress("view")))
	if !strings.Contains(v.page.URL(), "zoom=") {
		t.Errorf("the table is of the whole range: %s", v.page.URL())
	}
	if n, err := v.page.Locator("[data-chart]").Count(); err != nil || n != 0 {
		t.Errorf("%d charts beside the tables, %v", n, err)
	}
	counts, err := v.page.Locator(".chart-panel").First().Locator("tbody tr td.num:last-child").AllInnerTexts()
	v.must(err)
	sum := 0
	for _, c := range counts {
		var n int
		if _, err := fmt.Sscan(strings.ReplaceAll(c, ",", ""), &n); err != nil {
			t.Fatalf("samples %q", c)
		}
		sum += n
	}
	if !strings.HasPrefix(strings.TrimSpace(samples), fmt.Sprint(sum)+" ") || sum == 0 {
		t.Errorf("the card says %q, the table counts %d", samples, sum)
	}
	v.keep("metrics-table")
	v.clean()
}

func metricsKeys(t *testing.T, d *demo) {
	v := metricsTab(t, d, 0, "range=6h", look{})
	host := v.page.Locator("#chart-ttft")
	v.must(host.Focus())
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			v.must(v.page.Keyboard().Press(k))
		}
	}
	said := func() string { return v.text("#chart-ttft [aria-live]") }
	press("End")
	last := said()
	if !regexp.MustCompile(`^\w+ \d+ \w+, \d\d:\d\d:\d\d, p50 .*p99 .* samples?$`).MatchString(last) {
		t.Errorf("the last step reads %q", last)
	}
	press("ArrowLeft")
	if got := said(); got == last {
		t.Errorf("a step to the left still reads %q", got)
	}
	// One crosshair on all charts.
	shown, err := v.page.Evaluate(`["ttft", "e2e", "requests"].map(id => echarts.getInstanceByDom(document.querySelector("#chart-" + id + " > div")).getOption().xAxis[0].axisPointer.value)`)
	v.must(err)
	at := shown.([]any)
	if at[0] == nil || fmt.Sprint(at[0]) != fmt.Sprint(at[1]) || fmt.Sprint(at[1]) != fmt.Sprint(at[2]) {
		t.Errorf("crosshairs stand at %v", at)
	}
	v.must(v.page.Locator("#chart-ttft .chart-keys").WaitFor())
	v.keep("metrics-keys")
	press("ArrowRight")
	if got := said(); got != last {
		t.Errorf("there and back reads %q, not %q", got, last)
	}
	press("Home")
	if got := said(); got == last {
		t.Errorf("the first step reads %q", got)
	}
	whole := v.chart("ttft")
	press("+")
	v.must(v.page.WaitForURL(inAddress("zoom")))
	v.wait("half the range", func() bool { return math.Abs(v.chart("ttft").span().Hours()-3) < 0.1 })
	press("+")
	v.wait("a quarter of the range", func() bool { return math.Abs(v.chart("ttft").span().Hours()-1.5) < 0.1 })
	press("-")
	v.wait("half the range again", func() bool { return math.Abs(v.chart("ttft").span().Hours()-3) < 0.1 })
	if focused, err := host.Evaluate(`h => h === document.activeElement`, nil); err != nil || focused != true {
		t.Errorf("the chart has lost the focus: %v %v", focused, err)
	}
	press("Escape")
	v.wait("the whole range", func() bool { c := v.chart("ttft"); return c.Step == whole.Step && c.span() >= whole.span() })
	press("+")
	v.must(v.page.WaitForURL(inAddress("zoom")))
	press("0")
	v.must(v.page.WaitForURL(regexp.MustCompile(`range=6h$`)))
	press("t")
	v.must(v.page.WaitForURL(inAddress("view")))
	v.must(v.page.Locator(".metrics-table").First().WaitFor())
	v.clean()
}

func metricsLooks(t *testing.T, d *demo) {
	for _, l := range []struct {
		name string
		look look
	}{{"light", look{}}, {"dark", look{dark: true}}, {"narrow", look{width: 400}}, {"narrow-dark", look{width: 400, dark: true}}} {
		for name, query := range map[string]string{"whole": "range=24h&compare=previous", "zoom": "range=6h&" + ago(20*time.Minute, 0), "tables": "view=table&range=15m"} {
			v := metricsTab(t, d, 0, query, l.look)
			if name == "zoom" {
				v.must(v.page.Locator("#chart-ttft").Focus())
				v.must(v.page.Keyboard().Press("End"))
			}
			v.accessible()
			sizes, err := v.page.Evaluate(`[document.documentElement.scrollWidth - document.documentElement.clientWidth,
				[...document.querySelectorAll("[data-chart]")].filter(h => h.querySelector("canvas").clientWidth !== h.clientWidth).map(h => h.id).join(" ")]`)
			v.must(err)
			if got := fmt.Sprint(sizes); got != "[0 ]" {
				t.Errorf("%s, %s: the page is wider than the window, or charts do not fill their places: %s", l.name, name, got)
			}
			v.keep("metrics-" + name + "-" + l.name)
			v.clean()
		}
	}
}

// Without a script the zoom is a link like any other.
func metricsWithoutScript(t *testing.T, d *demo) {
	b, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	v := newVisitor(t, d.Console, look{})
	v.signIn(d.Operator)
	state, err := v.page.Context().StorageState()
	v.must(err)
	ctx, err := b.NewContext(playwright.BrowserNewContextOptions{BaseURL: &d.Console, JavaScriptEnabled: playwright.Bool(false), StorageState: state.ToOptionalStorageState()})
	v.must(err)
	t.Cleanup(func() { _ = ctx.Close() })
	page, err := ctx.NewPage()
	v.must(err)
	v.page = page
	v.open("/deployments/" + d.Deployments[0].ID + "/metrics?range=6h&view=table&" + ago(20*time.Minute, 10*time.Minute))
	v.says("one point every 10 s")
	v.must(page.Locator("a[data-zoom-reset]").Click())
	v.must(page.WaitForURL(regexp.MustCompile(`range=6h&view=table$`)))
	v.says("one point every 1 min")
}

func (v *visitor) wait(what string, done func() bool) {
	v.t.Helper()
	waitFor(v.t, patience, what, done)
}
