package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// running is a chunk with a cumulative count.
func running(n int) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", n, 12+n)
}

// leaveAfter reads a stream up to n events and closes the connection.
func (b *bench) leaveAfter(n int, body string) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", body).WithContext(ctx))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	in := newEventReader(resp.Body)
	for range n {
		for {
			if _, ok := in.next(); ok {
				break
			}
			if err := in.fill(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestMB01AClientThatLeavesIsBilledWhatWasMade(t *testing.T) {
	gone := make(chan time.Time, 1)
	var left atomic.Int64
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		for i := 1; i <= 5; i++ {
			sse(w, running(i))
		}
		<-r.Context().Done()
		gone <- time.Now()
	})
	b := newBench(t, []string{e.URL})
	b.leaveAfter(5, streamed)
	left.Store(time.Now().UnixNano())
	select {
	case at := <-gone:
		// Generous for a busy machine; the aim is a tenth of it.
		if d := at.Sub(time.Unix(0, left.Load())); d > time.Second {
			t.Errorf("the engine worked on for %v", d)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the engine was never told")
	}
	u := b.row(1)
	wantTokens(t, u, 12, 5, "aborted", 499)
	if u.E2EMS != nil || u.TTFTMS == nil {
		t.Errorf("E2E %v, TTFT %v", u.E2EMS, u.TTFTMS)
	}
	b.idle()
}

func TestClientsThatLeaveBeforeTheFirstTokenPayNothingAndAreCountedApart(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			sse(w, role)
		}
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL})
	b.leaveAfter(1, streamed)
	wantTokens(t, b.row(1), 0, 0, "aborted_prefill", 499)
	// Before the engine has even answered.
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for len(e.seen()) < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantTokens(t, b.row(2), 0, 0, "aborted_prefill", 499)
	b.until("both are counted", func() bool { return b.count()[metrics.Abandoned] == 2 })
	if n := b.count(); n[metrics.TTFT] != 0 || n[metrics.Failures] != 0 {
		t.Errorf("observations: %v", n)
	}
	b.idle()
}

func TestAClientThatLeavesInTheQueueIsToldApart(t *testing.T) {
	e := plainEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 9 }),
		func(b *bench) { b.g.Limits = leaves{&memoryLimits{}, cancel} })
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != nil })
	b.g.ServeHTTP(httptest.NewRecorder(), b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx))
	u := b.row(1)
	wantTokens(t, u, 0, 0, "aborted_queue", 499)
	if u.Attempts != 0 || len(e.seen()) != 0 {
		t.Errorf("%d attempts, %d upstream calls", u.Attempts, len(e.seen()))
	}
}

// leaves is the moment at which a client goes.
type leaves struct {
	Limits
	leave func()
}

func (l leaves) Reserve(ctx context.Context, id string, now time.Time, claims []Claim) (Standing, error) {
	defer l.leave()
	return l.Limits.Reserve(ctx, id, now, claims)
}
