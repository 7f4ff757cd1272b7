package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
	"tokenfactory/web"
	"tokenfactory/web/session"
)

// bench is the real console on a real store, with an operator signed in.
type bench struct {
	t      *testing.T
	store  *store.Store
	server *httptest.Server
	client *http.Client // the operator's
	token  string       // a management token
	poked  atomic.Int64
}

const benchPassword = "correct horse battery"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, store: storetest.Open(t)}
	e, err := web.New(web.Site{Store: b.store, Poke: func() { b.poked.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewServer(e)
	t.Cleanup(b.server.Close)
	if b.token, err = session.NewManagementToken(b.ctx(), b.store); err != nil {
		t.Fatal(err)
	}
	b.client = b.signIn(b.person("op@example.org", true))
	return b
}

func (b *bench) ctx() context.Context { return b.t.Context() }

func (b *bench) person(email string, operator bool) factory.User {
	b.t.Helper()
	hash, err := session.HashPassword(benchPassword)
	if err != nil {
		b.t.Fatal(err)
	}
	u := factory.User{ID: factory.NewID(), Email: email, PasswordHash: hash, Operator: operator, CreatedAt: factory.Now()}
	if err := b.store.CreateUser(b.ctx(), u); err != nil {
		b.t.Fatal(err)
	}
	return u
}

func (b *bench) signIn(u factory.User) *http.Client {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a := b.send(client, http.MethodPost, "/signin", url.Values{"email": {u.Email}, "password": {benchPassword}})
	if a.status != http.StatusSeeOther {
		b.t.Fatalf("sign in of %s: %d\n%s", u.Email, a.status, a.body)
	}
	return client
}

type answer struct {
	t        *testing.T
	status   int
	location string
	body     string
}

func (b *bench) send(client *http.Client, method, path string, form url.Values) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.ctx(), method, b.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(client, req)
}

func (b *bench) do(client *http.Client, req *http.Request) answer {
	b.t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{b.t, resp.StatusCode, resp.Header.Get("Location"), string(body)}
}

func (b *bench) get(path string) answer { return b.send(b.client, http.MethodGet, path, nil) }
func (b *bench) post(path string, form url.Values) answer {
	return b.send(b.client, http.MethodPost, path, form)
}

// page is the HTML of an answer.
func (a answer) page() *goquery.Document {
	a.t.Helper()
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
	if err != nil {
		a.t.Fatal(err)
	}
	return doc
}

// is checks the status, and shows what came when it is another.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		text := a.body
		if strings.Contains(text, "<html") {
			text = strings.Join(strings.Fields(a.page().Find("main").Text()), " ")
		}
		a.t.Fatalf("status %d, want %d: %s", a.status, status, text)
	}
	return a
}

// problem is the message at a field.
func (a answer) problem(field string) string {
	return strings.TrimSpace(a.page().Find("#field-" + field + "-error").Text())
}

// text is what stands in the page's main part, spaces evened out.
func (a answer) text() string { return strings.Join(strings.Fields(a.page().Find("main").Text()), " ") }

type docResult struct {
	Kind, Name, Result string
	Secrets            map[string]string
}

type docError struct {
	Kind     string
	Message  string
	Document struct{ Kind, Name string }
	Fields   map[string]string
}

// apply posts documents as a script does.
func (b *bench) apply(documents string) (int, []docResult, docError) {
	b.t.Helper()
	return b.applyAs(b.token, `{"documents":[`+documents+`]}`)
}

func (b *bench) applyAs(token, body string) (int, []docResult, docError) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.ctx(), http.MethodPost, b.server.URL+"/api/v1/apply", bytes.NewBufferString(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	a := b.do(http.DefaultClient, req)
	var out struct {
		Results []docResult
		Error   docError
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		b.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return a.status, out.Results, out.Error
}

func (b *bench) mustApply(documents string) []docResult {
	b.t.Helper()
	status, results, problem := b.apply(documents)
	if status != http.StatusOK {
		b.t.Fatalf("apply: %d %+v", status, problem)
	}
	return results
}

// A small factory: one cluster, its endpoint, a model, a tenant.
const smallFactory = `
	{"kind":"cluster","name":"lab","spec":{"description":"The lab"}},
	{"kind":"endpoint","name":"public","spec":{"cluster":"lab"}},
	{"kind":"provider","name":"qwen"},
	{"kind":"model","name":"qwen3-8b","spec":{"provider":"qwen","source":"huggingface","location":"Qwen/Qwen3-8B","context_length":40960,"parameters_b":8.2,"weight_bits":16,"layers":36,"kv_heads":8,"head_size":128}},
	{"kind":"tenant","name":"acme","spec":{"title":"Acme"}}`

const chatDeployment = `{"kind":"deployment","name":"chat","spec":{"model":"qwen3-8b","endpoint":"public","engine":"vllm","input_price":"0.15","output_price":"0.60","tenants":["acme"]}}`

// machine has a node join the lab: a DGX Spark where vLLM is missing and the
// simulator is there.
func (b *bench) machine(name string, lastSeen time.Time) factory.Node {
	b.t.Helper()
	cluster, err := b.store.ClusterByName(b.ctx(), "lab")
	if err != nil {
		b.t.Fatal(err)
	}
	_, hash := factory.NewSecret(factory.PrefixJoin)
	now := factory.Now()
	err = b.store.CreateJoinToken(b.ctx(), factory.JoinToken{ID: factory.NewID(), ClusterID: cluster.ID, Hash: hash, MaxUses: 1, ExpiresAt: now.Add(time.Hour), CreatedAt: now})
	if err != nil {
		b.t.Fatal(err)
	}
	memory, used := int64(130663165952), int64(41875931136)
	busy := 34.0
	n, err := b.store.RedeemJoinToken(b.ctx(), hash, factory.Node{
		ID: factory.NewID(), Name: name, Identity: "identity of " + name, CredentialHash: factory.NewID(),
		Address: "10.0.0.9", AgentVersion: "0.1.0", Runtime: engines.RuntimeProcess,
		Hardware: factory.Hardware{
			Hostname: name, Arch: "arm64", OS: "DGX OS 7.2.3", Kernel: "6.11.0", CPUModel: "Cortex-X925", CPUCores: 20,
			MemoryBytes: memory, Driver: "580.126.09", CUDA: "13.0",
			GPUs: []factory.GPU{{UUID: "GPU-" + name, Name: "NVIDIA GB10", ComputeCap: "12.1", MemoryBytes: &memory, UsedBytes: &used, Utilisation: &busy, Unified: true}},
			Engines: []factory.EngineCheck{
				{Engine: "vllm", Reason: "There is no command vllm in the agent's PATH."},
				{Engine: "sim", OK: true, Version: "1"},
			},
		},
	}, lastSeen)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func nowish() time.Time { return factory.Now() }
