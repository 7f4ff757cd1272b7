package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/playwright-community/playwright-go"
)

// The walk that the product is made for, by a person in a browser, on each database.

func TestFiveStepsOnSQLite(t *testing.T)     { walk(t, "") }
func TestFiveStepsOnPostgreSQL(t *testing.T) { walk(t, newDatabase(t)) }

// clientMeasured is what the official client saw from outside.
type clientMeasured struct {
	Models   []string
	Requests int
	Prompt   int64
	Complete int64   `json:"completion"`
	TTFT     float64 `json:"ttft_p50"`
	E2E      float64 `json:"e2e_p50"`
	Refusal  string
}

func walk(t *testing.T, database string) {
	h := &house{t: t, data: t.TempDir(), database: database, base: fmt.Sprintf("http://127.0.0.1:%d", freePort(t))}
	h.startServe()

	// The set-up link makes the first operator, and works once.
	v := newVisitor(t, h.base, look{})
	link := regexp.MustCompile(regexp.QuoteMeta(h.base) + `/setup\?token=\S+`).FindString(h.serve.out.String())
	if link == "" {
		t.Fatalf("no set-up link in:\n%s", h.serve.out)
	}
	v.open(strings.TrimPrefix(link, h.base))
	v.put("name", "Olga Operator")
	v.put("email", "olga@factory.example")
	v.put("password", "a long enough password")
	v.submit("setup-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/(deployments|clusters)?(\?.*)?$`)))
	again := newVisitor(t, h.base, look{})
	if resp, err := again.page.Goto(strings.TrimPrefix(link, h.base)); err != nil || resp.Status() < 400 {
		t.Errorf("the set-up link works twice: %v %v", resp, err)
	}

	// Step 1: a cluster, and a machine that joins it with the copied command.
	v.open("/clusters/new")
	v.put("name", "desk")
	v.submit("cluster-form")
	command := v.text("main .command code")
	args := strings.Fields(strings.NewReplacer("\\\n", " ", "sudo ", "", "'", "").Replace(command))
	if len(args) < 3 || !strings.HasSuffix(args[0], "tokenfactory-agent") {
		t.Fatalf("not the command of an agent: %q", command)
	}
	for i, a := range args[:len(args)-1] {
		if a == "--data" {
			args[i+1] = t.TempDir() // everything else as it was copied
		}
	}
	start(t, nil, binary(t, "tokenfactory-agent"), args[1:]...)
	v.sees("The machine is ready")
	v.keep("walk-registration")

	// Step 2: an endpoint. Step 3: a provider and a model from the built-in list.
	v.open("/endpoints/new")
	v.put("name", "front")
	v.pick("cluster", "desk")
	v.submit("endpoint-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/endpoints/[a-z2-7]{26}$`)))
	v.open("/models/new?from=qwen2-0.5b-instruct")
	v.submit("model-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/models(/[a-z2-7]{26})?$`)))

	// Step 5 comes first here: the tenant to share with.
	v.open("/tenants/new")
	v.put("name", "acme")
	v.submit("tenant-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/tenants/[a-z2-7]{26}$`)))
	v.put("email", "mia@acme.example")
	v.pick("role", "member")
	v.submit("member-form")
	password := v.text(".secret code")

	// Step 4: a deployment. A mistake keeps what was typed.
	v.open("/deployments/new")
	v.put("name", "chat")
	v.pick("model", "qwen2-0.5b-instruct")
	v.pick("endpoint", "front")
	v.pick("engine", "sim")
	v.put("engine_args", "--ttft=60ms\n--itl=8ms")
	v.put("gpu_count", "0")
	v.put("replicas", "two")
	v.mark("free", "no")
	v.put("input_price", "0.15")
	v.put("output_price", "0.60")
	v.mark("sharing", "some")
	v.mark("tenants", "acme")
	v.submit("deployment-form")
	v.sees("Write a whole number")
	if kept, err := v.page.Locator("#field-replicas").InputValue(); err != nil || kept != "two" {
		t.Errorf("the form forgot what was typed: %q %v", kept, err)
	}
	v.put("replicas", "1")
	v.submit("deployment-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/deployments/[a-z2-7]{26}$`)))
	v.must(v.page.Locator("main, header").GetByText("Ready", playwright.LocatorGetByTextOptions{Exact: playwright.Bool(true)}).First().WaitFor())
	deployment := v.page.URL()
	v.keep("walk-deployment")

	// The tenant's member signs in, sees the model, and makes a key.
	m := newVisitor(t, h.base, look{})
	m.signIn(login{"mia@acme.example", password})
	m.open("/t/acme/models")
	m.sees(smallModel)
	if resp, err := m.page.Goto("/clusters"); err != nil || resp.Status() < 403 {
		t.Errorf("a member may look at clusters: %v %v", resp.Status(), err)
	}
	m.mu.Lock()
	m.bad = nil // the refusal just asked for shows in the console
	m.mu.Unlock()
	m.open("/t/acme/keys")
	m.put("name", "app")
	m.submit("key-form")
	key := m.text(".secret code")

	// The official client sends traffic and measures.
	out, err := exec.Command("node", "openai.mjs", h.base+"/v1", key, smallModel, "40", "5").Output()
	if err != nil {
		t.Fatalf("the official client failed: %v\n%s", err, stderrOf(err))
	}
	var c clientMeasured
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	if c.Refusal != "404 model_not_found" {
		t.Errorf("an unknown model is refused with %q", c.Refusal)
	}
	if fmt.Sprint(c.Models) != "["+smallModel+"]" {
		t.Errorf("the key may use %v", c.Models)
	}

	// The cards say what the client saw.
	h.token = strings.TrimSpace(h.run("admin", append([]string{"token", "--data", h.data}, h.databaseArgs()...)...))
	var figures struct {
		Summary struct {
			TTFT struct{ P50, N *float64 } `json:"ttft_ms"`
			E2E  struct{ P50, N *float64 } `json:"e2e_ms"`
			KV   struct{ Peak *float64 }   `json:"kv_cache"`
		}
	}
	to := time.Now().Add(time.Minute)
	query := url.Values{"from": {to.Add(-30 * time.Minute).UTC().Format(time.RFC3339)}, "to": {to.UTC().Format(time.RFC3339)}}
	h.wait("all requests are measured", func() bool {
		h.get("/api/v1/deployments/chat/metrics?"+query.Encode(), &figures)
		n := figures.Summary.E2E.N
		return n != nil && *n >= float64(c.Requests) && figures.Summary.KV.Peak != nil
	})
	v.open(strings.TrimPrefix(deployment, h.base) + "/metrics?range=15m")
	v.must(v.page.Locator("[data-chart] canvas").First().WaitFor())
	// The gateway sees no less than the engine's own pauses and no more than the client, whose event loop may be late.
	least := map[string]float64{"ttft": 50, "e2e": 200}
	for name, want := range map[string]float64{"ttft": c.TTFT, "e2e": c.E2E} {
		shown := v.figure(name)
		if shown < least[name] || shown > want+max(15, want/10) {
			t.Errorf("the %s card says %.1f ms, the client measured %.1f ms", name, shown, want)
		}
		t.Logf("%s p50: card %.1f ms, client %.1f ms", name, shown, want)
	}
	v.keep("walk-metrics")
	v.clean()

	// The tenant's usage page has the client's tokens and their price, exactly.
	var usage struct {
		Total struct {
			Requests   int
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Cost       string
		}
	}
	h.wait("all requests are booked", func() bool {
		h.get("/api/v1/usage?group=tenant", &usage)
		return usage.Total.Requests >= c.Requests
	})
	if usage.Total.Requests != c.Requests || usage.Total.Prompt != c.Prompt || usage.Total.Completion != c.Complete {
		t.Errorf("usage says %+v, the client counted %d requests, %d/%d tokens", usage.Total, c.Requests, c.Prompt, c.Complete)
	}
	// Prices 0.15 and 0.60 per million: in millionths, cost is a whole number of hundredths.
	hundredths := c.Prompt*15 + c.Complete*60
	if want := strings.TrimRight(fmt.Sprintf("%d.%08d", hundredths/1e8, hundredths%1e8), "0"); usage.Total.Cost != want {
		t.Errorf("cost is %s, want %s", usage.Total.Cost, want)
	}
	m.open("/t/acme/usage")
	m.sees(fmt.Sprint(c.Requests))
	m.keep("walk-usage")
	m.clean()
}

func stderrOf(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}

// put types into the field of a form by its name; the page's fields are known by it.
func (v *visitor) put(field, text string) {
	v.t.Helper()
	v.must(v.page.Locator("#field-" + field).Fill(text))
}

// pick chooses an option by its value.
func (v *visitor) pick(field, value string) {
	v.t.Helper()
	_, err := v.page.Locator("#field-" + field).SelectOption(playwright.SelectOptionValues{Values: &[]string{value}})
	v.must(err)
}

// mark chooses one of several radio buttons or check boxes.
func (v *visitor) mark(name, value string) {
	v.t.Helper()
	v.must(v.page.Locator(fmt.Sprintf(`input[name=%q][value=%q]`, name, value)).Check())
}

func (v *visitor) submit(form string) {
	v.t.Helper()
	v.must(v.page.Locator("#" + form + " button[type=submit]").Last().Click())
}

// figure reads the big number of a card, in milliseconds.
func (v *visitor) figure(name string) float64 {
	v.t.Helper()
	text := v.text(`[data-card="` + name + `"] [data-figure]`)
	m := regexp.MustCompile(`([0-9][0-9,.]*)\s*(ms|s)`).FindStringSubmatch(text)
	if m == nil {
		v.t.Fatalf("card %s has no figure: %q", name, text)
	}
	var f float64
	if _, err := fmt.Sscan(strings.ReplaceAll(m[1], ",", ""), &f); err != nil {
		v.t.Fatal(err)
	}
	if m[2] == "s" {
		f *= 1000
	}
	return f
}
