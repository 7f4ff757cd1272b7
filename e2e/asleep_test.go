package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RR-05: a deployment that sleeps holds no machine. The first of sixty callers at
// once wakes it, fifty wait and are answered, ten are told to come back, and a replica
// that has just started is not run over.
func TestRR05AsleepDeploymentWakesForItsCallers(t *testing.T) {
	t.Parallel()
	const callers, held, load, concurrency = 60, 50, 3 * time.Second, 8
	h := newHouse(t, "")
	made := h.apply(strings.NewReplacer(
		`"--max-seqs=64"`, `"--max-seqs=64", "--load=`+load.String()+`"`,
		"prefix_caching: true", "prefix_caching: true\n  replica_concurrency: "+strconv.Itoa(concurrency),
	).Replace(oneEngine))
	key := secret(t, made, "key", "app", "key")
	agent := h.startAgent(secret(t, made, "cluster", "bench", "join_token"))
	h.wait("the engine serves", func() bool {
		_, _, err := chat(context.Background(), h.base, key, hello)
		return err == nil
	})
	awake, _ := h.replicaPID("small")

	o := h.operator()
	page := "/deployments/" + h.deployment("small").ID
	o.submit(page, page+"/sleep", nil)
	h.wait("the deployment sleeps", func() bool {
		d := h.deployment("small")
		return d.State == "asleep" && len(d.Copies) == 0
	})
	time.Sleep(2 * time.Second)
	if d := h.deployment("small"); d.State != "asleep" || len(d.Copies) > 0 {
		t.Fatalf("it woke without a request: %+v", d)
	}

	peak, stop := h.peakOfSmall()
	type answer struct {
		status     int
		whole      bool
		took       time.Duration
		retryAfter string
		code       string
		id         string
	}
	answers := make([]answer, callers)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			began := time.Now()
			resp, err := open(t.Context(), h.base, key, `{"model":"`+smallModel+`","max_tokens":20,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			a := &answers[i]
			a.status, a.took, a.retryAfter, a.id = resp.StatusCode, time.Since(began), resp.Header.Get("Retry-After"), resp.Header.Get("X-Request-Id")
			a.whole = err == nil && strings.Contains(string(body), "data: [DONE]")
			a.code = codeOf(strings.NewReader(string(body)))
		})
	}
	wg.Wait()
	stop()

	answered, refused := map[string]bool{}, 0
	for _, a := range answers {
		switch {
		case a.status == http.StatusOK && a.whole:
			answered[a.id] = true
			if a.took < load {
				t.Errorf("answered after %s, before any engine was loaded", a.took)
			}
		case a.status == http.StatusServiceUnavailable && a.code == "no_replica_ready" && a.took < load:
			refused++
			if n, err := strconv.Atoi(a.retryAfter); err != nil || n < 1 {
				t.Errorf("refused with Retry-After %q", a.retryAfter)
			}
		default:
			t.Errorf("answered %+v", a)
		}
	}
	if len(answered) != held || refused != callers-held {
		t.Errorf("%d of %d were answered and %d refused; %d may wait", len(answered), callers, refused, held)
	}
	if most := peak(); most > concurrency {
		t.Errorf("the engine was given %d requests at once, of which it may have %d", most, concurrency)
	} else if most == 0 {
		t.Error("the engine was never seen at work")
	}
	if pid, state := h.replicaPID("small"); pid == 0 || pid == awake || state != "ready" {
		t.Errorf("after waking, the replica is process %d and %s; before it was %d", pid, state, awake)
	}
	if n := strings.Count(agent.out.String(), "an engine is started"); n != 2 {
		t.Errorf("engines were started %d times: once at first and once to wake are enough", n)
	}
	// The wait is in the request's own times.
	booked := 0
	h.wait("the answers are booked", func() bool {
		booked = 0
		for _, r := range h.ledger() {
			if !answered[r.ID] {
				continue
			}
			booked++
			if r.TTFT == nil || r.Queue == nil || *r.TTFT < *r.Queue || *r.Queue < float64(load.Milliseconds()) || *r.E2E < *r.TTFT || r.CompletionTokens != 20 {
				t.Fatalf("booked as %+v", r)
			}
		}
		return booked == held
	})
}

// deploymentJSON is what the tests read of GET /api/v1/deployments/:name.
type deploymentJSON struct {
	ID, State, Reason string
	Copies            []struct {
		PID        int
		State, URL string
	}
}

func (h *house) deployment(name string) (d deploymentJSON) {
	h.t.Helper()
	h.get("/api/v1/deployments/"+name, &d)
	return d
}

// peakOfSmall watches the only engine's own figures until it is stopped.
func (h *house) peakOfSmall() (peak func() int, stop func()) {
	var most int
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		var engine string
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if engine == "" {
				var d deploymentJSON
				if h.tryGet("/api/v1/deployments/small", &d) == nil && len(d.Copies) == 1 {
					engine = d.Copies[0].URL
				}
				continue
			}
			most = max(most, atWork(engine))
		}
	})
	return func() int { return most }, func() { close(done); watching.Wait() }
}

// atWork is how many requests an engine says it has, running and waiting.
func atWork(engine string) (n int) {
	resp, err := http.Get(engine + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "vllm:num_requests_running{") || strings.HasPrefix(name, "vllm:num_requests_waiting{") {
			f, _ := strconv.ParseFloat(value, 64) // the engine's gauges are numbers
			n += int(f)
		}
	}
	return n
}

// person is somebody in a browser without scripts.
type person struct {
	*http.Client
	h *house
}

// operator signs the first operator up, with the link that the server printed.
func (h *house) operator() *person {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	p := &person{Client: &http.Client{Jar: jar}, h: h}
	link := regexp.MustCompile(`/setup\?token=(\S+)`).FindStringSubmatch(h.serve.out.String())
	if link == nil {
		h.t.Fatalf("no set-up link in:\n%s", h.serve.out)
	}
	p.submit(link[0], "/setup", url.Values{
		"token": {link[1]}, "name": {"Olga Operator"}, "email": {"olga@factory.example"}, "password": {"a long enough password"},
	})
	return p
}

// submit sends a form that is on a page.
func (p *person) submit(page, action string, fields url.Values) {
	t := p.h.t
	t.Helper()
	resp, err := p.Get(p.h.base + page)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", page, resp.Status, err)
	}
	csrf := regexp.MustCompile(`name="_csrf" value="([^"]+)"`).FindSubmatch(body)
	if csrf == nil || !strings.Contains(string(body), `action="`+action+`"`) {
		t.Fatalf("%s has no form for %s", page, action)
	}
	sent := url.Values{"_csrf": {string(csrf[1])}}
	for name, values := range fields {
		sent[name] = values
	}
	resp, err = p.PostForm(p.h.base+action, sent)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK { // after the redirect
		t.Fatalf("%s: %s", action, resp.Status)
	}
}
