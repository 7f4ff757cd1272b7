package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestApplyingTwiceChangesNothingTheSecondTime(t *testing.T) {
	b := newBench(t)
	all := smallFactory + `,` + chatDeployment + `,
		{"kind":"member","name":"ada@acme.example","spec":{"tenant":"acme","name":"Ada","role":"admin"}},
		{"kind":"key","name":"app","spec":{"tenant":"acme"}}`
	for _, r := range b.mustApply(all) {
		if r.Result != "created" {
			t.Errorf("first time: %s %s is %s", r.Kind, r.Name, r.Result)
		}
		switch r.Kind {
		case "cluster":
			wantSecret(t, r, "join_token", "tfj-")
		case "key":
			wantSecret(t, r, "key", "sk-tf-")
		case "member":
			wantSecret(t, r, "password", "")
		default:
			if len(r.Secrets) > 0 {
				t.Errorf("%s has secrets", r.Kind)
			}
		}
	}
	if b.poked.Load() == 0 {
		t.Error("the controller was not told")
	}
	for _, r := range b.mustApply(all) {
		if r.Result != "unchanged" || len(r.Secrets) > 0 {
			t.Errorf("second time: %s %s is %s with %v", r.Kind, r.Name, r.Result, r.Secrets)
		}
	}
}

func wantSecret(t *testing.T, r docResult, name, prefix string) {
	t.Helper()
	if s := r.Secrets[name]; s == "" || !strings.HasPrefix(s, prefix) {
		t.Errorf("%s %s: secret %s is %q", r.Kind, r.Name, name, s)
	}
}

func TestDocumentsMayComeInAnyOrder(t *testing.T) {
	b := newBench(t)
	results := b.mustApply(chatDeployment + `,` + smallFactory)
	if results[0].Kind != "deployment" || results[0].Result != "created" {
		t.Errorf("results are not in the order of the documents: %+v", results[0])
	}
}

func TestChangesAreAppliedAndOnlyTheEnginesOnesRaiseTheRevision(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	steps := []struct {
		spec     string
		revision int
	}{
		{`"input_price":"0.20","output_price":"0.60","tenants":["acme"]`, 1},
		{`"input_price":"0.20","output_price":"0.60","shared_with_all":true`, 1},
		{`"input_price":"0.20","output_price":"0.60","shared_with_all":true,"replicas":3`, 1},
		{`"input_price":"0.20","output_price":"0.60","shared_with_all":true,"replicas":3,"engine_args":["--max-num-seqs=64"]`, 2},
		{`"free":true,"shared_with_all":true,"replicas":3,"engine_args":["--max-num-seqs=64"]`, 2},
	}
	for _, s := range steps {
		doc := `{"kind":"deployment","name":"chat","spec":{"model":"qwen3-8b","endpoint":"public","engine":"vllm",` + s.spec + `}}`
		if r := b.mustApply(doc)[0]; r.Result != "changed" {
			t.Errorf("%s: %s", s.spec, r.Result)
		}
		if r := b.mustApply(doc)[0]; r.Result != "unchanged" {
			t.Errorf("again %s: %s", s.spec, r.Result)
		}
		d, err := b.store.DeploymentByName(b.ctx(), "chat")
		if err != nil {
			t.Fatal(err)
		}
		if d.Revision != s.revision {
			t.Errorf("%s: revision %d, want %d", s.spec, d.Revision, s.revision)
		}
	}
}

func TestAModelThatMovesRestartsItsDeployments(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	b.mustApply(`{"kind":"model","name":"qwen3-8b","spec":{"provider":"qwen","source":"huggingface","location":"Qwen/Qwen3-8B-FP8","context_length":40960}}`)
	d, err := b.store.DeploymentByName(b.ctx(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	if d.Revision != 2 {
		t.Errorf("revision %d, want 2", d.Revision)
	}
	if d.PublicName != "Qwen/Qwen3-8B" {
		t.Errorf("clients have to name it %s all of a sudden", d.PublicName)
	}
}

func TestDefaultsOfADeployment(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,
		{"kind":"model","name":"local","spec":{"provider":"qwen","source":"path","location":"/srv/models/secret place","context_length":4096}},
		{"kind":"deployment","name":"cpu","spec":{"model":"local","endpoint":"public","engine":"llamacpp","free":true}},` + chatDeployment)
	chat, err := b.store.DeploymentByName(b.ctx(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	if chat.PublicName != "Qwen/Qwen3-8B" || chat.Cluster != "lab" || chat.GPUCount != 1 || chat.Replicas != 1 || !chat.PrefixCaching || chat.Workload != "interactive" {
		t.Errorf("%+v", chat.DeploymentSpec)
	}
	if chat.Price.Currency != "USD" || chat.Price.CachedInput != "0.15" {
		t.Errorf("%+v", chat.Price)
	}
	cpu, err := b.store.DeploymentByName(b.ctx(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if cpu.GPUCount != 0 {
		t.Errorf("llama.cpp gets %d GPUs without having asked", cpu.GPUCount)
	}
	if cpu.PublicName != "local" {
		t.Errorf("the public name %q tells where the files are", cpu.PublicName)
	}
}

func TestAPriceMayBeWrittenAsANumberAndKeepsItsDigits(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + strings.NewReplacer(`"0.15"`, `0.150000001`, `"0.60"`, `2`).Replace(chatDeployment))
	chat, err := b.store.DeploymentByName(b.ctx(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	if chat.Price.Input != "0.150000001" || chat.Price.Output != "2" {
		t.Errorf("%+v", chat.Price)
	}
}

func TestWhatIsWrongWithADocumentIsNamed(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	b.machine("spark-01", nowish())
	for _, c := range []struct{ what, doc, field, says string }{
		{"unknown kind", `{"kind":"pod","name":"x"}`, "kind", "cluster, provider"},
		{"unknown field", `{"kind":"cluster","name":"x","spec":{"colour":"red"}}`, "colour", "description"},
		{"unknown field of a deployment", `{"kind":"deployment","name":"x","spec":{"modle":"qwen3-8b"}}`, "modle", "model, endpoint"},
		{"text for a number", `{"kind":"deployment","name":"x","spec":{"replicas":"two"}}`, "replicas", "whole number"},
		{"no such model", deploymentWith(`"model":"nope"`), "model", "“nope”"},
		{"no such endpoint", deploymentWith(`"endpoint":"nope"`), "endpoint", "“nope”"},
		{"no such engine", deploymentWith(`"engine":"nope"`), "engine", "vllm, sglang"},
		{"engine that runs nowhere there", deploymentWith(`"engine":"vllm"`), "engine", "no command vllm in the agent's PATH"},
		{"context too long", deploymentWith(`"context_length":50000`), "context_length", "40960"},
		{"no price", deploymentWith(`"input_price":"","output_price":""`), "input_price", "or choose free"},
		{"price with a sign", deploymentWith(`"input_price":"$1"`), "input_price", "without a currency sign"},
		{"taken public name", deploymentWith(`"public_name":"Qwen/Qwen3-8B"`), "public_name", "deployment chat"},
		{"no such tenant", deploymentWith(`"tenants":["nope"]`), "tenants", "“nope”"},
		{"GPU that is not there", deploymentWith(`"gpu":"NVIDIA H100","gpu_count":1`), "gpu", "NVIDIA GB10"},
		{"more GPUs than a machine has", deploymentWith(`"gpu_count":2`), "gpu_count", "the largest has 1"},
		{"two watchers", deploymentWith(`"address":"http://127.0.0.1:8000","replicas":2`), "replicas", "write 1"},
		{"bad name", `{"kind":"cluster","name":"Lab One"}`, "name", "lower-case"},
		{"member without an address", `{"kind":"member","name":"ada","spec":{"tenant":"acme","role":"admin"}}`, "name", "e-mail"},
		{"short password", `{"kind":"member","name":"a@b.example","spec":{"tenant":"acme","role":"admin","password":"short"}}`, "password", "at least 10"},
		{"expired key", `{"kind":"key","name":"old","spec":{"tenant":"acme","expires_at":"2001-01-01"}}`, "expires_at", "passed"},
		{"endpoint without a cluster", `{"kind":"endpoint","name":"x","spec":{"cluster":"nope"}}`, "cluster", "“nope”"},
	} {
		status, _, problem := b.apply(c.doc)
		if status != http.StatusUnprocessableEntity || !strings.Contains(problem.Fields[c.field], c.says) {
			t.Errorf("%s: %d %v, want %q to say %q", c.what, status, problem.Fields, c.field, c.says)
		}
		if problem.Document.Name == "" {
			t.Errorf("%s: the document is not named: %+v", c.what, problem)
		}
	}
}

// deploymentWith is a document that is right but for one thing.
func deploymentWith(wrong string) string {
	spec := map[string]string{
		"model": `"qwen3-8b"`, "endpoint": `"public"`, "engine": `"sim"`, "public_name": `"other"`, "input_price": `"1"`, "output_price": `"1"`,
	}
	parts := []string{wrong}
	for k, v := range spec {
		if !strings.Contains(wrong, `"`+k+`"`) {
			parts = append(parts, `"`+k+`":`+v)
		}
	}
	return `{"kind":"deployment","name":"x","spec":{` + strings.Join(parts, ",") + `}}`
}

func TestAnEngineThatAlreadyRunsNeedsNoInstallation(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	b.machine("spark-01", nowish())
	r := b.mustApply(deploymentWith(`"engine":"vllm","address":"http://127.0.0.1:8000"`))
	if r[0].Result != "created" {
		t.Errorf("%+v", r)
	}
}

func TestADeploymentOnAClusterWithoutMachinesWaits(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	if r := b.mustApply(deploymentWith(`"engine":"vllm"`)); r[0].Result != "created" {
		t.Errorf("%+v", r)
	}
}

func TestAPriceCanChangeWhileTheEngineIsMissingFromTheMachine(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment) // before any machine
	b.machine("spark-01", nowish())                  // which has no vLLM
	if r := b.mustApply(strings.Replace(chatDeployment, "0.15", "0.10", 1)); r[0].Result != "changed" {
		t.Errorf("%+v", r)
	}
}

func TestOneBadDocumentUndoesAll(t *testing.T) {
	b := newBench(t)
	status, _, problem := b.apply(smallFactory + `,{"kind":"deployment","name":"chat","spec":{"model":"nope","endpoint":"public","engine":"vllm","free":true}}`)
	if status != http.StatusUnprocessableEntity || problem.Document.Name != "chat" {
		t.Fatalf("%d %+v", status, problem)
	}
	clusters, err := b.store.AllClusters(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	tenants, err := b.store.AllTenants(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if len(clusters)+len(tenants) > 0 {
		t.Errorf("left behind: %v %v", clusters, tenants)
	}
}

func TestOfAKeyOnlyTheLimitsChange(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,{"kind":"key","name":"app","spec":{"tenant":"acme","requests_per_minute":60}}`)
	same := `{"kind":"key","name":"app","spec":{"tenant":"acme","requests_per_minute":60}}`
	if r := b.mustApply(same); r[0].Result != "unchanged" || len(r[0].Secrets) > 0 {
		t.Errorf("the same again: %+v", r)
	}
	other := `{"kind":"key","name":"app","spec":{"tenant":"acme","requests_per_minute":600,"budget":12.50,"budget_period":"day"}}`
	if r := b.mustApply(other); r[0].Result != "changed" || len(r[0].Secrets) > 0 {
		t.Errorf("other limits: %+v", r)
	}
	if r := b.mustApply(other); r[0].Result != "unchanged" {
		t.Errorf("other limits again: %+v", r)
	}
	acme, err := b.store.TenantByName(b.ctx(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	k, err := b.store.KeyByName(b.ctx(), acme.ID, "app")
	want := factory.Limits{RequestsPerMinute: 600, Budget: "12.5", BudgetCurrency: "USD", BudgetPeriod: factory.Day}
	if err != nil || k.Limits != want {
		t.Errorf("limits are %+v, want %+v (%v)", k.Limits, want, err)
	}
	for field, spec := range map[string]string{
		"scope":      `{"tenant":"acme","scope":"management"}`,
		"expires_at": `{"tenant":"acme","expires_at":"2099-01-31"}`,
	} {
		status, _, problem := b.apply(`{"kind":"key","name":"app","spec":` + spec + `}`)
		if status != http.StatusUnprocessableEntity || !strings.Contains(problem.Fields[field], "Only the limits") {
			t.Errorf("another %s: %d %+v", field, status, problem)
		}
	}
	if k, err = b.store.Key(b.ctx(), acme.ID, k.ID); err != nil || k.Limits != want {
		t.Errorf("a refused document changed the limits: %+v %v", k.Limits, err)
	}
}

func TestDocumentsTakeLimitsOfEveryNoun(t *testing.T) {
	b := newBench(t)
	const all = `"requests_per_minute":60,"tokens_per_minute":1000,"input_tokens_per_minute":800,"output_tokens_per_minute":400,"concurrent_requests":4,"budget":"99.50","budget_currency":"EUR","budget_period":"week"`
	want := factory.Limits{
		RequestsPerMinute: 60, TokensPerMinute: 1000, InputTokensPerMinute: 800, OutputTokensPerMinute: 400, ConcurrentRequests: 4,
		Budget: "99.5", BudgetCurrency: "EUR", BudgetPeriod: factory.Week,
	}
	docs := smallFactory + `,{"kind":"tenant","name":"globex","spec":{` + all + `}},
		{"kind":"key","name":"app","spec":{"tenant":"globex",` + all + `}},
		{"kind":"deployment","name":"chat","spec":{"model":"qwen3-8b","endpoint":"public","engine":"vllm","free":true,"replica_concurrency":8,` + all + `}}`
	b.mustApply(docs)
	for _, r := range b.mustApply(docs) {
		if r.Result != "unchanged" {
			t.Errorf("the same %s %s again is %s", r.Kind, r.Name, r.Result)
		}
	}
	globex, err := b.store.TenantByName(b.ctx(), "globex")
	if err != nil || globex.Limits != want {
		t.Errorf("tenant: %+v %v", globex.Limits, err)
	}
	if k, err := b.store.KeyByName(b.ctx(), globex.ID, "app"); err != nil || k.Limits != want || k.TenantLimits != want {
		t.Errorf("key: %+v of %+v %v", k.Limits, k.TenantLimits, err)
	}
	if d, err := b.store.DeploymentByName(b.ctx(), "chat"); err != nil || d.Limits != want || d.ReplicaConcurrency != 8 || d.Revision != 1 {
		t.Errorf("deployment: %+v %v", d.DeploymentSpec, err)
	}
	// What a document leaves out is no limit, and no restart.
	r := b.mustApply(`{"kind":"tenant","name":"globex"},{"kind":"deployment","name":"chat","spec":{"model":"qwen3-8b","endpoint":"public","engine":"vllm","free":true}}`)
	if r[0].Result != "changed" || r[1].Result != "changed" {
		t.Errorf("taking limits away: %+v", r)
	}
	if d, err := b.store.DeploymentByName(b.ctx(), "chat"); err != nil || !d.Limits.None() || d.ReplicaConcurrency != 0 || d.Revision != 1 {
		t.Errorf("deployment without limits: %+v %v", d.DeploymentSpec, err)
	}
	for field, doc := range map[string]string{
		"budget":            `{"kind":"tenant","name":"globex","spec":{"budget":"ten"}}`,
		"budget_currency":   `{"kind":"tenant","name":"globex","spec":{"budget":10,"budget_currency":"dollars"}}`,
		"budget_period":     `{"kind":"tenant","name":"globex","spec":{"budget":10,"budget_period":"year"}}`,
		"tokens_per_minute": `{"kind":"tenant","name":"globex","spec":{"tokens_per_minute":"many"}}`,
		"budgets":           `{"kind":"tenant","name":"globex","spec":{"budgets":10}}`,
	} {
		status, _, problem := b.apply(doc)
		if status != http.StatusUnprocessableEntity || problem.Fields[field] == "" || strings.Contains(problem.Fields[field], ", ,") {
			t.Errorf("%s: %d %+v", field, status, problem)
		}
	}
}

func TestAMembersPasswordIsTheirsAlone(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	before, err := b.store.UserByEmail(b.ctx(), "op@example.org")
	if err != nil {
		t.Fatal(err)
	}
	r := b.mustApply(`{"kind":"member","name":"OP@example.org","spec":{"tenant":"acme","role":"member","password":"taken over by me"}}`)
	if r[0].Result != "created" || len(r[0].Secrets) > 0 {
		t.Errorf("%+v", r)
	}
	after, err := b.store.UserByEmail(b.ctx(), "op@example.org")
	if err != nil {
		t.Fatal(err)
	}
	if after.PasswordHash != before.PasswordHash {
		t.Error("a document has changed a known person's password")
	}
}

func TestAnEndpointWithDeploymentsStaysOnItsCluster(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment + `,{"kind":"cluster","name":"other"}`)
	status, _, problem := b.apply(`{"kind":"endpoint","name":"public","spec":{"cluster":"other"}}`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(problem.Fields["cluster"], "1 deployment") {
		t.Errorf("%d %+v", status, problem)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		body   string
		status int
	}{
		{`{"documents":[`, http.StatusBadRequest},
		{`{"documents":[]}`, http.StatusBadRequest},
		{`{"docs":[]}`, http.StatusUnprocessableEntity},
		{`{"documents":[{"kind":"cluster","name":"a","metadata":{}}]}`, http.StatusUnprocessableEntity},
		{`{"documents":[{"kind":"cluster","name":"a"}]} trailing`, http.StatusBadRequest},
		{`{"documents":[{"kind":"cluster","name":"` + strings.Repeat("a", 5<<20) + `"}]}`, http.StatusRequestEntityTooLarge},
	} {
		status, _, problem := b.applyAs(b.token, c.body)
		if status != c.status || problem.Message == "" {
			t.Errorf("%.60s: %d %+v", c.body, status, problem)
		}
	}
}

func TestOnlyOperatorsAndTheirTokensApply(t *testing.T) {
	b := newBench(t)
	key := b.mustApply(smallFactory + `,{"kind":"key","name":"m","spec":{"tenant":"acme","scope":"management"}}`)[5].Secrets["key"]
	const doc = `{"documents":[{"kind":"tenant","name":"evil"}]}`
	for _, c := range []struct {
		token  string
		status int
	}{{key, http.StatusForbidden}, {"tfm-made-up", http.StatusUnauthorized}, {b.token, http.StatusOK}} {
		if status, _, _ := b.applyAs(c.token, doc); status != c.status {
			t.Errorf("%.8s…: %d, want %d", c.token, status, c.status)
		}
	}
}
