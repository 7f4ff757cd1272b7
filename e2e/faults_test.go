package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/e2e/faults"
	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/slo/notify"
)

// Whatever goes wrong with an engine, people are told once, with the right cause in it, and
// once that it is over, however often the control plane starts anew.
func TestEachFaultEndsInItsSignatureAndIsTold(t *testing.T) {
	t.Cleanup(faults.Steady())
	for _, s := range faults.Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			newOutage(t, s).play()
		})
	}
}

const (
	burst = 16               // requests between two looks
	step  = 80 * time.Second // between two looks: less than what counts as a time in which nobody looked
)

// outage is one scenario on its way.
type outage struct {
	*testing.T
	scenario faults.Scenario
	rng      *rand.Rand
	plant    *faults.Plant
	load     faults.Load
	receiver *receiver
}

func newOutage(t *testing.T, s faults.Scenario) *outage {
	o := &outage{T: t, scenario: s, rng: rand.New(rand.NewPCG(4, 3)), receiver: newReceiver(t)}
	var err error
	if o.plant, err = faults.New(t.Context(), t.TempDir(), faults.Options(o.rng)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.ok(o.plant.Close()) })
	o.ok(o.plant.Tell(t.Context(), o.receiver.URL, o.receiver.secret))
	o.load = s.Load(o.rng)
	return o
}

func (o *outage) ok(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *outage) serve(l faults.Load, n int) {
	o.Helper()
	o.ok(o.plant.Serve(o.Context(), o.rng, l, n))
}

func (o *outage) look() {
	o.Helper()
	o.ok(o.plant.Pass(o.Context(), step))
	o.ok(o.plant.Look(o.Context()))
}

func (o *outage) play() {
	o.serve(o.load, 3*burst)
	o.look()
	o.quiet("before anything went wrong")
	o.ok(o.plant.Pass(o.Context(), faults.Apart))

	o.ok(o.scenario.Begin(o.rng, o.plant.Engine))
	then, n := o.scenario.Then(o.rng, o.load, 3*burst)
	if o.scenario.Want == slo.Healthy {
		o.stayHealthy(then, n)
		return
	}
	if o.scenario.Few {
		n = 3 * slo.LeastBad // in all as few as three bursts of what makes an alert
	}
	told := o.breakDown(then, n/3)
	o.fired(told)
	o.restart("while alerts fire")

	faults.End(o.plant.Engine)
	o.resolved(told, o.recover(len(told)))
	o.restart("after all was over")
}

// breakDown has traffic until an alert fires, and gives the slower rule that pages one more
// look to fire as well.
func (o *outage) breakDown(l faults.Load, n int) (told []slo.Payload) {
	for range 6 {
		o.serve(l, n)
		o.look()
		if told = o.receiver.take(); len(told) > 0 {
			break
		}
	}
	o.look()
	return append(told, o.receiver.take()...)
}

// stayHealthy is for a scenario in which nothing goes wrong.
func (o *outage) stayHealthy(l faults.Load, n int) {
	for range 3 {
		o.serve(l, n/3)
		o.look()
	}
	o.quiet("although nothing is wrong")
	if d, err := o.plant.Diagnose(o.Context()); err != nil || d.Signature != slo.Healthy {
		o.Errorf("the diagnosis is %s, %v", said(&d), err)
	}
}

// fired checks what was told of the fault.
func (o *outage) fired(told []slo.Payload) {
	if !slices.ContainsFunc(told, func(p slo.Payload) bool { return strings.HasPrefix(p.Subject, "burn/page/1h/") }) {
		d, err := o.plant.Diagnose(o.Context())
		o.Fatalf("told %v, want the page of the fastest burn; the diagnosis is %s, %v", subjects(told), said(&d), err)
	}
	for _, p := range told {
		if p.Change != factory.ChangeFiring || p.Rule != factory.RuleBurn || p.Deployment == nil || p.Deployment.Name != "chat" {
			o.Errorf("told %+v, want that the budget of chat burns", p)
		}
		if p.FiringAt == nil || p.FiringAt.Sub(p.PendingAt) < slo.PendingFor {
			o.Errorf("%s fires at %v and was pending since %v", p.Subject, p.FiringAt, p.PendingAt)
		}
		if p.Diagnosis == nil || p.Diagnosis.Signature != o.scenario.Want {
			o.Errorf("%s says %s, want %s", p.Subject, said(p.Diagnosis), o.scenario.Want)
		}
	}
}

// recover has healthy traffic until the end of so many alerts was told.
func (o *outage) recover(alerts int) (told []slo.Payload) {
	for i := range 90 {
		if i%3 == 0 {
			o.serve(o.load, burst/2)
		}
		o.look()
		if told = append(told, o.receiver.take()...); len(told) >= alerts {
			return told
		}
	}
	o.Fatalf("two hours after the end of it %v was told, want the end of %d alerts", subjects(told), alerts)
	return nil
}

// resolved checks that the end of each alert was told, and of which fault it was.
func (o *outage) resolved(fired, told []slo.Payload) {
	o.Helper()
	ended := map[string]int{}
	for _, p := range told {
		if p.Change != factory.ChangeResolved || p.ResolvedAt == nil || p.Diagnosis == nil || p.Diagnosis.Signature != o.scenario.Want {
			o.Errorf("told %s %s with %s, want that it is resolved and was %s", p.Change, p.Subject, said(p.Diagnosis), o.scenario.Want)
		}
		ended[p.ID]++
	}
	for _, p := range fired {
		if ended[p.ID] != 1 {
			o.Errorf("the end of %s was told %d times", p.Subject, ended[p.ID])
		}
	}
}

// restart checks that nothing is told again.
func (o *outage) restart(when string) {
	o.Helper()
	o.ok(o.plant.Restart(o.Context()))
	o.ok(o.plant.Look(o.Context()))
	o.look()
	o.quiet("by a control plane that started anew " + when)
}

func (o *outage) quiet(when string) {
	o.Helper()
	if told := o.receiver.take(); len(told) > 0 {
		o.Fatalf("told %v %s", subjects(told), when)
	}
}

func subjects(told []slo.Payload) (out []string) {
	for _, p := range told {
		out = append(out, string(p.Change)+" "+p.Subject)
	}
	return out
}

// said is a diagnosis with what it rests on.
func said(d *slo.Diagnosis) string {
	if d == nil {
		return "nothing"
	}
	text := string(d.Signature) + ":"
	for _, e := range d.Evidence {
		text += " " + e.Text
	}
	return text
}

// receiver is a webhook that believes nobody without the secret.
type receiver struct {
	*httptest.Server
	secret string
	mu     sync.Mutex
	heard  []slo.Payload
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{secret: "only the two of us know"}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		mac := hmac.New(sha256.New, []byte(r.secret))
		mac.Write([]byte(req.Header.Get(notify.HeaderTimestamp) + "."))
		mac.Write(body)
		var p slo.Payload
		if err != nil || req.Header.Get(notify.HeaderSignature) != "v1="+hex.EncodeToString(mac.Sum(nil)) || json.Unmarshal(body, &p) != nil {
			t.Errorf("somebody else's message, %v: %s", err, body)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard = append(r.heard, p)
	}))
	t.Cleanup(r.Close)
	return r
}

// take hands out what was heard since the last time.
func (r *receiver) take() []slo.Payload {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.heard
	r.heard = nil
	return heard
}
