package gateway

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// TestRR01AnEvictedReplicaIsNoTarget: with the update its address becomes empty.
func TestRR01AnEvictedReplicaIsNoTarget(t *testing.T) {
	for name, evict := range map[string]func(*factory.Route){
		"without an address": func(r *factory.Route) { r.Replicas[0].URL = "" },
		"failed":             func(r *factory.Route) { r.Replicas[0].State, r.Replicas[0].URL = factory.Failed, "" },
		"gone":               func(r *factory.Route) { r.Replicas = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := plainEngine(t)
			b := newBench(t, []string{e.URL})
			if r := b.chat(plainly); r.status != 200 {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			b.change(func(w *world) {
				w.routes = []factory.Route{routeTo(asked, e.URL)}
				evict(&w.routes[0])
			})
			begun := time.Now()
			for _, body := range []string{plainly, streamed} {
				r := b.chat(body)
				if r.status != 503 || gjson.Get(r.body, "error.code").String() != "no_replica_ready" || r.header.Get("Retry-After") == "" {
					t.Errorf("%d %v %s", r.status, r.header, r.body)
				}
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("it took %v to say so", took)
			}
			if n := len(e.seen()); n != 1 {
				t.Errorf("%d upstream calls", n)
			}
			if logs := b.logs.String(); strings.Contains(logs, "address") {
				t.Errorf("it is an event like any other, but was logged: %s", logs)
			}
		})
	}
}

func TestRR02ATerminatingReplicaFinishesAndGetsNothingNew(t *testing.T) {
	finish := make(chan struct{})
	one := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, delta("Hel"))
		<-finish
		sse(w, delta("lo"), usage, done)
	})
	two := plainEngine(t)
	b := newBench(t, []string{one.URL})
	resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "Hel") {
		t.Fatalf("%v %s", err, line)
	}
	b.change(func(w *world) {
		w.routes = []factory.Route{routeTo(asked, one.URL, two.URL)}
		w.routes[0].Replicas[0].State, w.routes[0].Replicas[0].Stopping = factory.Ready, true
	})
	for range 20 {
		if r := b.chat(plainly); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	if a, z := len(one.seen()), len(two.seen()); a != 1 || z != 20 {
		t.Errorf("%d calls at the terminating replica and %d at the other", a-1, z)
	}
	// Should it come back while the stream runs, the stream still counts as load.
	b.change(func(w *world) { w.routes = []factory.Route{routeTo(asked, one.URL, two.URL)} })
	if n := b.g.routes.now.Load().byName[asked].replicas[0].inFlight.Load(); n != 1 {
		t.Errorf("%d in flight at the replica that came back", n)
	}
	close(finish)
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), "lo") || !strings.HasSuffix(string(rest), done) {
		t.Errorf("the running stream: %v %s", err, rest)
	}
	b.row(21)
	for _, u := range b.ledger() {
		if u.Flags != "" || u.Status != 200 {
			t.Errorf("row %+v", u)
		}
	}
	b.idle()
}

func TestWhatIsWrongWithRoutesIsSaidOnceUntilItChanges(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	wrong := func(w *world) {
		twin := routeTo(asked, e.URL)
		twin.Deployment.ID = "twin"
		odd := routeTo("odd", "ftp://"+e.Listener.Addr().String())
		w.routes = append(w.routes[:1:1], twin, odd)
		w.aliases = []factory.Alias{{ID: "a1", Name: asked, Targets: []factory.AliasTarget{{DeploymentID: "dep-odd", Weight: 1}}}}
	}
	right := func(w *world) { w.routes, w.aliases = w.routes[:1], nil }
	for round, want := range []int{1, 1, 2} {
		if round == 2 {
			b.change(right)
		}
		b.change(wrong)
		for _, said := range []string{"two deployments with one public name", "an address that cannot be used", "an alias has the name of a deployment"} {
			if n := strings.Count(b.logs.String(), said); n != want {
				t.Errorf("%q was logged %d times, want %d", said, n, want)
			}
		}
	}
}

func TestPokesReadRoutesAtOnce(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, nil)
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != nil })
	begun := time.Now()
	b.set(arrive(e.URL))
	for range 1000 {
		b.g.Poke()
	}
	b.until("the replica is known", func() bool { return len(b.g.routes.now.Load().byName[asked].replicas) == 1 })
	if took := time.Since(begun); took > routeEvery/2 {
		t.Errorf("it took %v", took)
	}
	(&Gateway{}).Poke() // before Open nothing is read, and nothing hangs
}
