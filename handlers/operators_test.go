package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func deploymentForm(changes url.Values) url.Values {
	f := url.Values{
		"typed": {"yes"}, "name": {"chat"}, "model": {"qwen3-8b"}, "endpoint": {"public"}, "serving": {"start"}, "engine": {"sim"},
		"replicas": {"1"}, "workload": {"interactive"}, "free": {"no"}, "currency": {"USD"}, "input_price": {"0.15"}, "output_price": {"0.60"},
		"sharing": {"some"}, "tenants": {"acme"}, "prefix_caching": {"on"},
	}
	for k, v := range changes {
		f[k] = v
	}
	return f
}

func TestAFormThatDoesNotValidateKeepsWhatWasTyped(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	a := b.post("/deployments", deploymentForm(url.Values{
		"replicas": {"two"}, "model": {""}, "engine_args": {"--one\n--two"}, "engine_env": {"BAD"}, "input_price": {"cheap"},
	})).is(http.StatusUnprocessableEntity)
	for field, says := range map[string]string{
		"replicas": "whole number", "model": "Choose the model", "engine_env": "no equals sign", "input_price": "such as 0.15",
	} {
		if !strings.Contains(a.problem(field), says) {
			t.Errorf("%s: %q, want %q", field, a.problem(field), says)
		}
	}
	page := a.page()
	for selector, want := range map[string]string{
		"input[name=replicas]": "two", "input[name=name]": "chat", "input[name=input_price]": "cheap", "input[name=output_price]": "0.60",
	} {
		if got, _ := page.Find(selector).Attr("value"); got != want {
			t.Errorf("%s holds %q, want %q", selector, got, want)
		}
	}
	if got := page.Find("textarea[name=engine_args]").Text(); got != "--one\n--two" {
		t.Errorf("engine arguments are %q", got)
	}
	if got, _ := page.Find("select[name=endpoint] option[selected]").Attr("value"); got != "public" {
		t.Errorf("endpoint is %q", got)
	}
	if _, checked := page.Find("input[name=tenants][value=acme]").Attr("checked"); !checked {
		t.Error("the tenant is not ticked any more")
	}
	if n, _ := b.store.AllDeployments(b.ctx()); len(n) > 0 {
		t.Error("something was created")
	}
}

func TestFormsCreateEachNounAndLeadToIt(t *testing.T) {
	b := newBench(t)
	walk := []struct {
		path string
		form url.Values
		to   string
	}{
		{"/clusters", url.Values{"name": {"lab"}}, "/clusters/"},
		{"/endpoints", url.Values{"name": {"public"}, "cluster": {"lab"}, "hostname": {"LLM.example.org"}}, "/endpoints/"},
		{"/providers", url.Values{"name": {"qwen"}, "website": {"https://qwen.ai"}}, "/providers/"},
		{"/models", url.Values{"name": {"qwen3-8b"}, "provider": {"qwen"}, "source": {"huggingface"}, "location": {"Qwen/Qwen3-8B"}, "context_length": {"40,960"}}, "/models/"},
		{"/deployments", deploymentForm(url.Values{"tenants": nil}), "/deployments/"},
	}
	for _, w := range walk {
		a := b.post(w.path, w.form).is(http.StatusSeeOther)
		if !strings.HasPrefix(a.location, w.to) {
			t.Fatalf("%s leads to %s", w.path, a.location)
		}
		b.get(a.location).is(http.StatusOK)
		again := b.post(w.path, w.form).is(http.StatusUnprocessableEntity)
		if says := again.problem("name"); !strings.Contains(says, "exists already") {
			t.Errorf("%s twice: %q", w.path, says)
		}
	}
	for _, path := range []string{"/clusters", "/endpoints", "/providers", "/models", "/deployments"} {
		b.get(path).is(http.StatusOK)
		b.get(path + "/new").is(http.StatusOK)
	}
}

func TestEveryPageOfANounReadsAndItsFormSaves(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	cluster, _ := b.store.ClusterByName(b.ctx(), "lab")
	endpoint, _ := b.store.EndpointByName(b.ctx(), "public")
	provider, _ := b.store.ProviderByName(b.ctx(), "qwen")
	model, _ := b.store.LLMByName(b.ctx(), "qwen3-8b")
	d, err := b.store.DeploymentByName(b.ctx(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/clusters/" + cluster.ID, "/endpoints/" + endpoint.ID, "/providers/" + provider.ID, "/models/" + model.ID} {
		b.get(path).is(http.StatusOK)
		edit := b.get(path + "/edit").is(http.StatusOK)
		a := b.post(path, typedInto(edit, "form[method=post][id]")).is(http.StatusSeeOther)
		if a.location != path {
			t.Errorf("saving %s leads to %s", path, a.location)
		}
	}
	for _, tab := range []string{"", "/replicas", "/settings", "/metrics"} {
		b.get("/deployments/" + d.ID + tab).is(http.StatusOK)
	}
	settings := b.get("/deployments/" + d.ID + "/settings")
	b.post("/deployments/"+d.ID, typedInto(settings, "#deployment-form")).is(http.StatusSeeOther)
	after, err := b.store.Deployment(b.ctx(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if after.Revision != d.Revision || !after.UpdatedAt.Equal(d.UpdatedAt) {
		t.Errorf("saving an untouched form changed the deployment: %+v", after.DeploymentSpec)
	}
}

// typedInto is what a browser sends for a form as it was drawn.
func typedInto(a answer, selector string) url.Values {
	out := url.Values{}
	form := a.page().Find(selector).First()
	for _, n := range form.Find("input[name]").EachIter() {
		kind, _ := n.Attr("type")
		if _, checked := n.Attr("checked"); (kind == "checkbox" || kind == "radio") && !checked {
			continue
		}
		name, _ := n.Attr("name")
		value, _ := n.Attr("value")
		out.Add(name, value)
	}
	for _, n := range form.Find("textarea[name]").EachIter() {
		name, _ := n.Attr("name")
		out.Add(name, n.Text())
	}
	for _, n := range form.Find("select[name]").EachIter() {
		name, _ := n.Attr("name")
		value, _ := n.Find("option[selected]").Attr("value")
		out.Add(name, value)
	}
	return out
}

func TestTheFormSaysWhichEnginesRunThereAndWhyTheOthersDoNot(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	b.machine("spark-01", nowish())
	a := b.get("/deployments/new?typed=yes&endpoint=public&model=qwen3-8b&name=half+typed").is(http.StatusOK)
	for _, says := range []string{"There is no command vllm in the agent's PATH.", "comes as a container image", "Runs here."} {
		if !strings.Contains(a.text(), says) {
			t.Errorf("the page does not say %q:\n%s", says, a.text())
		}
	}
	page := a.page()
	if _, disabled := page.Find("select[name=engine] option[value=vllm]").Attr("disabled"); !disabled {
		t.Error("vLLM can be chosen though it runs nowhere")
	}
	if _, disabled := page.Find("select[name=engine] option[value=sim]").Attr("disabled"); disabled {
		t.Error("the engine that runs cannot be chosen")
	}
	if got, _ := page.Find("input[name=name]").Attr("value"); got != "half typed" {
		t.Errorf("the name is %q after reading the choices anew", got)
	}
	if gpu := page.Find("select[name=gpu]").Text(); !strings.Contains(gpu, "NVIDIA GB10 — 1 of 1 free") {
		t.Errorf("GPUs: %s", gpu)
	}
	watching := b.get("/deployments/new?typed=yes&endpoint=public&serving=watch").page()
	if _, disabled := watching.Find("select[name=engine] option[value=vllm]").Attr("disabled"); disabled {
		t.Error("an engine that already runs elsewhere cannot be named")
	}
	if watching.Find("input[name=address]").Length() != 1 {
		t.Error("there is no field for its address")
	}
}

func TestAnEditThatRestartsIsToldBeforeItIsSaved(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	n := b.machine("spark-01", nowish())
	b.post("/deployments", deploymentForm(nil)).is(http.StatusSeeOther)
	d, err := b.store.DeploymentByName(b.ctx(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	replica := factory.Replica{ID: factory.NewID(), DeploymentID: d.ID, NodeID: n.ID, Revision: 1, State: factory.Ready, CreatedAt: nowish(), UpdatedAt: nowish()}
	if err := b.store.CreateReplica(b.ctx(), replica); err != nil {
		t.Fatal(err)
	}
	cheaper := deploymentForm(url.Values{"input_price": {"0.10"}})
	b.post("/deployments/"+d.ID, cheaper).is(http.StatusSeeOther)

	other := deploymentForm(url.Values{"engine_args": {"--ttft=10ms"}})
	asked := b.post("/deployments/"+d.ID, other).is(http.StatusUnprocessableEntity)
	if says := asked.page().Find("#restart-question").Text(); !strings.Contains(says, "stops before the new one starts") {
		t.Errorf("it asks %q", says)
	}
	if now, _ := b.store.Deployment(b.ctx(), d.ID); now.Revision != 1 || len(now.EngineArgs) > 0 {
		t.Fatal("it was saved without having been agreed to")
	}
	b.post("/deployments/"+d.ID, typedInto(asked, "#deployment-form")).is(http.StatusSeeOther)
	now, err := b.store.Deployment(b.ctx(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if now.Revision != 2 || len(now.EngineArgs) != 1 {
		t.Errorf("after agreeing: revision %d, %v", now.Revision, now.EngineArgs)
	}
}

func TestStopStartRestartAndDelete(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	d, _ := b.store.DeploymentByName(b.ctx(), "chat")
	path := "/deployments/" + d.ID
	b.post(path+"/stop", nil).is(http.StatusSeeOther)
	if now, _ := b.store.Deployment(b.ctx(), d.ID); !now.Stopped {
		t.Error("not stopped")
	}
	if text := b.get(path).text(); !strings.Contains(text, "Stopped by an operator") {
		t.Errorf("the page does not say so: %s", text)
	}
	b.post(path+"/start", nil).is(http.StatusSeeOther)
	b.post(path+"/restart", nil).is(http.StatusSeeOther)
	if now, _ := b.store.Deployment(b.ctx(), d.ID); now.Stopped || now.Revision != 2 {
		t.Errorf("stopped %v, revision %d", now.Stopped, now.Revision)
	}
	b.post(path+"/remove", nil).is(http.StatusSeeOther)
	b.get(path).is(http.StatusNotFound)
	b.post(path+"/stop", nil).is(http.StatusNotFound)
}

func TestWhatIsUsedCannotBeDeletedAndSaysByWhat(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment)
	cluster, _ := b.store.ClusterByName(b.ctx(), "lab")
	endpoint, _ := b.store.EndpointByName(b.ctx(), "public")
	model, _ := b.store.LLMByName(b.ctx(), "qwen3-8b")
	provider, _ := b.store.ProviderByName(b.ctx(), "qwen")
	for path, by := range map[string]string{
		"/clusters/" + cluster.ID: "endpoint public", "/endpoints/" + endpoint.ID: "chat",
		"/models/" + model.ID: "chat", "/providers/" + provider.ID: "qwen3-8b",
	} {
		if a := b.post(path+"/remove", nil).is(http.StatusConflict); !strings.Contains(a.text(), by) {
			t.Errorf("%s does not name %s: %s", path, by, a.text())
		}
	}
}

func TestTheBuiltInListFillsTheFormAndBringsItsProvider(t *testing.T) {
	b := newBench(t)
	a := b.get("/models/new?from=llama-3.1-8b-instruct").is(http.StatusOK)
	b.post("/models", typedInto(a, "#model-form")).is(http.StatusSeeOther)
	m, err := b.store.LLMByName(b.ctx(), "llama-3.1-8b-instruct")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := factory.BuiltInModel("llama-3.1-8b-instruct")
	got := m.ModelSpec
	got.Provider = m.ProviderName
	if got != want.ModelSpec {
		t.Errorf("saved %+v, want %+v", got, want.ModelSpec)
	}
	b.get("/models/new?from=nothing").is(http.StatusNotFound)
}

func TestTheListPutsTroubleFirstAndPagesByPlace(t *testing.T) {
	b := newBench(t)
	docs := []string{smallFactory}
	for i := range 130 {
		name := "d" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		docs = append(docs, `{"kind":"deployment","name":"`+name+`","spec":{"model":"qwen3-8b","endpoint":"public","engine":"vllm","free":true,"public_name":"`+name+`"}}`)
	}
	b.mustApply(strings.Join(docs, ","))
	last, _ := b.store.DeploymentByName(b.ctx(), "dez")
	n := b.machine("spark-01", nowish())
	failed := factory.Replica{ID: factory.NewID(), DeploymentID: last.ID, NodeID: n.ID, Revision: 1, State: factory.Failed, Reason: "The engine ended.", CreatedAt: nowish(), UpdatedAt: nowish()}
	if err := b.store.CreateReplica(b.ctx(), failed); err != nil {
		t.Fatal(err)
	}
	names := func(a answer) []string {
		var out []string
		for _, n := range a.page().Find("tbody th").EachIter() {
			out = append(out, strings.TrimSpace(n.Text()))
		}
		return out
	}
	first := b.get("/deployments").is(http.StatusOK)
	if got := names(first); len(got) != 100 || got[0] != "dez" {
		t.Fatalf("%d rows, first %v", len(got), got[:1])
	}
	next, _ := first.page().Find("a:contains('Next page')").Attr("href")
	second := names(b.get(next).is(http.StatusOK))
	if len(second) != 30 || second[0] <= names(first)[99] {
		t.Errorf("second page: %v", second)
	}
	if got := names(b.get("/deployments?q=DEZ")); len(got) != 1 {
		t.Errorf("found %v", got)
	}
}
