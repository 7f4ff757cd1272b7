package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/playwright-community/playwright-go"
)

// The browser is started once for all tests; each test gets a context of its own.
var browser = sync.OnceValues(func() (playwright.Browser, error) {
	driver, err := driverFolder()
	if err != nil {
		return nil, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("PLAYWRIGHT_NODEJS_PATH", node); err != nil {
		return nil, err
	}
	pw, err := playwright.Run(&playwright.RunOptions{DriverDirectory: driver, SkipInstallBrowsers: true})
	if err != nil {
		return nil, err
	}
	chromium := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "google-chrome", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil && chromium == "" {
			chromium = path
		}
	}
	return pw.Chromium.Launch(playwright.BrowserTypeLaunchOptions{
		ExecutablePath: &chromium,
		Args: []string{"--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync"},
	})
})

// driverFolder gives the driver from the npm package the layout that
// playwright-go looks for.
func driverFolder() (string, error) {
	pkg, err := filepath.Abs(filepath.Join("..", "node_modules", "playwright-core"))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "playwright-driver-")
	if err != nil {
		return "", err
	}
	return dir, os.Symlink(pkg, filepath.Join(dir, "package"))
}

// visitor is one person's browser window, and everything that went wrong in it.
type visitor struct {
	t    *testing.T
	base string
	page playwright.Page
	mu   sync.Mutex
	bad  []string
}

// look is how a window is set up.
type look struct {
	dark  bool
	width int
}

func newVisitor(t *testing.T, base string, l look) *visitor {
	t.Helper()
	b, err := browser()
	if err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	if l.width == 0 {
		l.width = 1280
	}
	scheme := playwright.ColorSchemeLight
	if l.dark {
		scheme = playwright.ColorSchemeDark
	}
	zone := "Europe/Berlin"
	ctx, err := b.NewContext(playwright.BrowserNewContextOptions{
		BaseURL:     &base,
		ColorScheme: scheme,
		Viewport:    &playwright.Size{Width: l.width, Height: 900},
		TimezoneId:  &zone,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ctx.Close() })
	ctx.SetDefaultTimeout(float64(patience.Milliseconds()))
	page, err := ctx.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, base: base, page: page}
	page.OnConsole(func(m playwright.ConsoleMessage) {
		// A form that comes back with messages is a 422, which the console reports as an error.
		if m.Type() == "error" && !strings.Contains(m.Text(), "status of 422") {
			v.note("console: " + m.Text())
		}
	})
	page.OnPageError(func(err error) { v.note("page error: " + err.Error()) })
	return v
}

func (v *visitor) note(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bad = append(v.bad, what)
}

// must stops the test when a step of a walk fails, with a picture of the page.
func (v *visitor) must(err error) {
	v.t.Helper()
	if err == nil {
		return
	}
	text, _ := v.page.Locator("body").InnerText(playwright.LocatorInnerTextOptions{Timeout: playwright.Float(1000)})
	v.t.Fatalf("at %s: %v\n%s", v.page.URL(), err, tail(text, 80))
}

func (v *visitor) open(path string) {
	v.t.Helper()
	resp, err := v.page.Goto(path, playwright.PageGotoOptions{WaitUntil: playwright.WaitUntilStateLoad})
	v.must(err)
	if resp != nil && resp.Status() >= 400 {
		v.t.Fatalf("%s answered %d", path, resp.Status())
	}
}

// sees waits until some text is on the page.
func (v *visitor) sees(text string) {
	v.t.Helper()
	v.must(v.page.GetByText(text).First().WaitFor())
}

// text is what an element says.
func (v *visitor) text(selector string) string {
	v.t.Helper()
	s, err := v.page.Locator(selector).First().InnerText()
	v.must(err)
	return s
}

// clean fails the test when anything was wrong in the window until now.
func (v *visitor) clean() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.bad {
		v.t.Errorf("%s: %s", v.page.URL(), b)
	}
	v.bad = nil
}

var axeSource = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile(filepath.Join("..", "node_modules", "axe-core", "axe.min.js"))
	return string(b), err
})

// accessible fails the test for every rule of axe that the page breaks.
func (v *visitor) accessible() {
	v.t.Helper()
	source, err := axeSource()
	if err != nil {
		v.t.Fatal(err)
	}
	// Evaluated, not added as a script: the page's policy would refuse that.
	_, err = v.page.Evaluate(source)
	v.must(err)
	found, err := v.page.Evaluate(`async () => (await axe.run()).violations.map(x =>
		x.id + ": " + x.help + "\n" + x.nodes.slice(0, 3).map(n => "    " + n.target + "  " + (n.failureSummary || "").split("\n").slice(1, 2)).join("\n"))`)
	v.must(err)
	for _, violation := range found.([]any) {
		v.t.Errorf("%s: %s", v.page.URL(), violation)
	}
}

// keep writes a picture into the folder that SCREENSHOTS names, for people to look at.
func (v *visitor) keep(name string) {
	v.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	path := filepath.Join(dir, name+".png")
	_, err := v.page.Screenshot(playwright.PageScreenshotOptions{Path: &path, FullPage: playwright.Bool(true)})
	v.must(err)
}
