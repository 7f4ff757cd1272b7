package gateway

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/engines/sim"
	"tokenfactory/factory"
)

// prefixHits asks engines how many prompt tokens they looked up and found.
func prefixHits(t *testing.T, urls []string) (queries, hits float64) {
	t.Helper()
	for _, u := range urls {
		resp, err := http.Get(u + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(page)) {
			var v float64
			name, value, _ := strings.Cut(line, "} ")
			if _, err := fmt.Sscan(value, &v); err != nil {
				continue
			}
			switch {
			case strings.HasPrefix(name, "vllm:prefix_cache_queries_total"):
				queries += v
			case strings.HasPrefix(name, "vllm:prefix_cache_hits_total"):
				hits += v
			}
		}
	}
	return queries, hits
}

// talk has conversations of several turns, side by side, each turn with all before
// it. extra makes the rest of a request.
func talk(b *bench, conversations, turns int, extra func() string) {
	for turn := range turns {
		for c := range conversations {
			messages := fmt.Sprintf(`{"role":"system","content":"You are number %d. %s"},{"role":"user","content":"%s"}`,
				c, strings.Repeat("Be kind. ", 150), strings.Repeat(fmt.Sprintf("Question %d. ", c), 20))
			for n := range turn {
				messages += fmt.Sprintf(`,{"role":"assistant","content":"Answer %d. %s"},{"role":"user","content":"And %d?"}`, n, strings.Repeat("Yes. ", 40), n)
			}
			if r := b.chat(`{"model":"demo-small","max_tokens":1,"messages":[` + messages + `]` + extra() + `}`); r.status != 200 {
				b.Fatalf("status %d: %s", r.status, r.body)
			}
		}
	}
}

func TestAConversationStaysWhereItsPrefixIs(t *testing.T) {
	share := func(extra func() string) float64 {
		var urls []string
		for range 4 {
			urls = append(urls, simulated(t, sim.Options{Model: asked}).URL)
		}
		b := newBench(t, urls)
		talk(b, 10, 6, extra)
		queries, hits := prefixHits(t, urls)
		if queries == 0 {
			t.Fatal("the engines looked nothing up")
		}
		return hits / queries
	}
	with := share(func() string { return "" })
	// The same with each turn called a conversation of its own.
	without := share(func() string { return fmt.Sprintf(`,"prompt_cache_key":"%d"`, rand.Uint64()) })
	t.Logf("%.0f %% of the prompt tokens are found with affinity, %.0f %% without", 100*with, 100*without)
	if with < 0.7 || with < 1.5*without {
		t.Errorf("%.2f with affinity, %.2f without", with, without)
	}
}

func TestWhatAConversationIs(t *testing.T) {
	long := strings.Repeat("x", affinityLeast)
	of := func(body string) conversation {
		t.Helper()
		q, p := parseRequest([]byte(body))
		if p != nil {
			t.Fatal(p.message)
		}
		return q.conversation()
	}
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	system := `{"role":"system","content":"` + long + `"}`
	user := `{"role":"user","content":"hi"}`
	for name, pair := range map[string][2]string{
		"later turns":            {chat(system + "," + user), chat(system + "," + user + `,{"role":"assistant","content":"hello"},{"role":"user","content":"more"}`)},
		"parts":                  {chat(system + `,{"content":[{"type":"text","text":"hi"}],"role":"user"}`), chat(system + `,{"content":[{"type":"text","text":"hi"}],"role":"user"},` + user)},
		"other options":          {chat(system + "," + user), `{"temperature":1,"messages":[` + system + "," + user + `],"model":"m"}`},
		"a key":                  {`{"model":"m","prompt_cache_key":"k","messages":[` + user + `]}`, `{"model":"m","prompt_cache_key":"k","input":"` + long + `"}`},
		"the start of a text":    {`{"model":"m","prompt":"` + strings.Repeat("x", promptStart) + `a"}`, `{"model":"m","prompt":"` + strings.Repeat("x", promptStart) + `b"}`},
		"turns of responses":     {`{"model":"m","instructions":"` + long + `","input":[` + user + `]}`, `{"model":"m","instructions":"` + long + `","input":[` + user + `,{"role":"assistant","content":"a"}]}`},
		"no message of the user": {chat(system), chat(system)},
	} {
		one, two := of(pair[0]), of(pair[1])
		if one.hash == 0 || one.hash != two.hash {
			t.Errorf("%s: %x and %x", name, one.hash, two.hash)
		}
	}
	for name, pair := range map[string][2]string{
		"users":        {chat(system + "," + user), chat(system + `,{"role":"user","content":"ho"}`)},
		"systems":      {chat(system + "," + user), chat(`{"role":"system","content":"y` + long + `"},` + user)},
		"instructions": {`{"model":"m","instructions":"a","input":"` + long + `"}`, `{"model":"m","instructions":"b","input":"` + long + `"}`},
		"keys":         {`{"model":"m","prompt_cache_key":"k"}`, `{"model":"m","prompt_cache_key":"l"}`},
	} {
		if one, two := of(pair[0]), of(pair[1]); one.hash == two.hash {
			t.Errorf("different %s are one conversation", name)
		}
	}
	for _, body := range []string{chat(user), `{"model":"m"}`, `{"model":"m","messages":5}`, `{"model":"m","messages":[]}`, `{"model":"m","prompt":"short"}`, `{"model":"m","prompt_cache_key":7}`} {
		if c := of(body); c.hash != 0 {
			t.Errorf("%s is a conversation", body)
		}
	}
	for _, body := range []string{`{"model":"m","messages":"` + long + `"}`, `{"model":"m","messages":[1,"` + long + `",null]}`, `{"model":"m","prompt":["` + long + `"]}`} {
		of(body) // nonsense is for the engine to refuse
	}
}

func TestTheFirstTurnEndsWithTheFirstMessageOfTheUser(t *testing.T) {
	for _, list := range []string{
		`[{"role":"system","content":"say \"user\""},{"role":"user","content":"hi"}|,{"role":"user","content":"more"}]`,
		`[{"content":"a } \\\" ] {","role" : "user","x":{"y":[1,{"z":"}"}]}}|,{"role":"assistant"}]`,
		`[{"role":"system","name":"user","content":[{"type":"user"}]},{"role":` + "\n\t" + `"user","content":[{"text":"\\"}]}|]`,
		`[{"role":"system","content":"\"role\":\"user\""},{"role":"assistant","content":"user"}]|`,
		`[{"role":"user"}|,1]`,
		`[{"role":"user"|`, // cut off: whatever it is, it has an end
		`["user",null,5]|`,
	} {
		first, after, _ := strings.Cut(list, "|")
		if n := firstTurn([]byte(first + after)); n != len(first) {
			t.Errorf("%s: %q", list, (first + after)[:n])
		}
	}
}

// poolOf is a pool of replicas in good standing.
func poolOf(n int) *pool {
	p := &pool{}
	for i := range n {
		id := fmt.Sprintf("replica-%d", i)
		p.replicas = append(p.replicas, &replica{id: id, hash: hashText(id), load: &load{}})
	}
	return p
}

// TestAffinityNeverOverloadsAReplica: whatever comes and goes, one that was chosen
// for a conversation's sake has at most a quarter more than the mean, rounded up.
func TestAffinityNeverOverloadsAReplica(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := poolOf(1 + rnd.IntN(12))
		p.most = int64(rnd.IntN(3) * 5)
		kinds := 1 + rnd.IntN(6) // few conversations: the worst case
		var held []lease
		now := time.Now()
		for range 400 {
			if rnd.IntN(3) == 0 && len(held) > 0 {
				i := rnd.IntN(len(held))
				held[i].release()
				held = append(held[:i], held[i+1:]...)
				continue
			}
			if rnd.IntN(20) == 0 {
				rep := p.replicas[rnd.IntN(len(p.replicas))]
				if rep.ejected.Load() == 0 {
					rep.ejected.Store(1<<63 - 1)
				} else {
					rep.ejected.Store(0)
				}
			}
			var total, good int64
			for _, rep := range p.replicas {
				if rep.standing(now.UnixNano()) == inOrder {
					total += rep.inFlight.Load()
					good++
				}
			}
			l, o := p.pick(choice{conversation: mix(uint64(rnd.IntN(kinds)))}, now)
			if o != found {
				if p.most == 0 {
					t.Fatalf("seed %d: outcome %d", seed, o)
				}
				continue
			}
			held = append(held, l)
			n := l.inFlight.Load()
			if good > 0 && 4*good*n >= 5*(total+1)+4*good {
				t.Fatalf("seed %d: %d in flight at the chosen of %d replicas with %d in all", seed, n, good, total)
			}
			if p.most > 0 && n > p.most {
				t.Fatalf("seed %d: %d in flight where %d may be", seed, n, p.most)
			}
		}
		for i := range held {
			held[i].release()
		}
		for _, rep := range p.replicas {
			if n := rep.inFlight.Load(); n != 0 {
				t.Fatalf("seed %d: %d left in flight", seed, n)
			}
		}
	}
}

func TestOnlyTheConversationsOfAReplicaThatLeavesMove(t *testing.T) {
	at := func(p *pool, c uint64) string {
		l, o := p.pick(choice{conversation: mix(c)}, time.Now())
		if o != found {
			t.Fatalf("outcome %d", o)
		}
		defer l.release()
		return l.id
	}
	all, fewer := poolOf(8), poolOf(8)
	gone := fewer.replicas[3].id
	fewer.replicas = append(fewer.replicas[:3:3], fewer.replicas[4:]...)
	share := map[string]int{}
	const n = 4000
	for c := range uint64(n) {
		before := at(all, c)
		share[before]++
		if after := at(fewer, c); before != gone && after != before {
			t.Fatalf("a conversation moved from %s to %s although %s left", before, after, gone)
		}
	}
	for id, k := range share {
		if k < n/8*3/4 || k > n/8*5/4 {
			t.Errorf("%s has %d of %d conversations", id, k, n)
		}
	}
}

// TestShortPromptsAreSpreadEvenly: they gain nothing from a cache.
func TestShortPromptsAreSpreadEvenly(t *testing.T) {
	one, two := plainEngine(t), plainEngine(t)
	b := newBench(t, []string{one.URL, two.URL})
	for range 20 {
		b.chat(plainly)
		b.chat(`{"model":"demo-small","prompt_cache_key":"k","messages":[]}`)
	}
	if a, z := len(one.seen()), len(two.seen()); a != 20 || z != 20 {
		t.Errorf("%d and %d", a, z)
	}
}

func TestAliasesSplitByWeightAndKeepConversationsTogether(t *testing.T) {
	served := map[string]*engine{}
	var routes []factory.Route
	for _, name := range []string{"old", "new", "none"} {
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			_, _ = io.WriteString(w, strings.Replace(whole, "demo-small", "served/"+name, 1))
		})
		served[name] = e
		r := routeTo(name, e.URL)
		r.Replicas[0].ID, r.Replicas[0].ServedName = "at-"+name, "served/"+name
		r.Deployment.Price = &factory.Price{ID: "price-" + name}
		routes = append(routes, r)
	}
	b := newBench(t, nil, func(b *bench) {
		b.routes = routes
		b.world.aliases = []factory.Alias{{ID: "a1", Name: "fast", Targets: []factory.AliasTarget{
			{DeploymentID: "dep-old", Weight: 80}, {DeploymentID: "dep-new", Weight: 20}, {DeploymentID: "dep-none", Weight: 0}}}}
	})
	const n = 300
	for range n {
		r := b.chat(`{"model":"fast","messages":[]}`)
		if r.status != 200 || gjson.Get(r.body, "model").String() != "fast" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if k := len(served["new"].seen()); k < n/10 || k > n*3/10 || len(served["none"].seen()) != 0 {
		t.Errorf("%d of %d went to the target with a fifth of the weight, %d to the one without", k, n, len(served["none"].seen()))
	}
	b.row(n)
	for _, u := range b.ledger() {
		name := strings.TrimPrefix(u.DeploymentID, "dep-")
		if u.ModelAsked != "fast" || u.ModelServed != "served/"+name || u.PriceID != "price-"+name || u.ReplicaID != "at-"+name {
			t.Fatalf("row %+v", u)
		}
	}
	for c := range 20 {
		before := len(served["new"].seen())
		for range 5 {
			b.chat(fmt.Sprintf(`{"model":"fast","messages":[{"role":"user","content":"%d %s"}]}`, c, strings.Repeat("x", affinityLeast)))
		}
		if k := len(served["new"].seen()) - before; k != 0 && k != 5 {
			t.Errorf("a conversation was split: %d of 5 turns", k)
		}
	}
}

func TestWeightsMoveNoMoreThanTheyHaveTo(t *testing.T) {
	table := &routeTable{}
	of := func(weight float64) *alias {
		a := &alias{}
		for i, w := range []float64{1, 1, weight} {
			d := factory.Deployment{DeploymentSpec: factory.DeploymentSpec{SharedWithAll: true}}
			a.targets = append(a.targets, target{&route{Route: factory.Route{Deployment: d}, name: fmt.Sprint(i), hash: hashText(fmt.Sprint("dep", i))}, w})
		}
		return a
	}
	light, heavy := of(1), of(2)
	share := map[string]int{}
	const n = 6000
	for c := range uint64(n) {
		before := table.routes(light, "t", "", mix(c))[0].name
		after := table.routes(heavy, "t", "", mix(c))[0].name
		if share[after]++; after != before && after != "2" {
			t.Fatalf("a conversation moved from %s to %s", before, after)
		}
	}
	if share["2"] < n*45/100 || share["2"] > n*55/100 || share["0"] < n*20/100 || share["1"] < n*20/100 {
		t.Errorf("shares %v", share)
	}
}
