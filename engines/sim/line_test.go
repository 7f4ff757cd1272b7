package sim

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsOverTheSeatsWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, MaxSeqs: 2})
		// One at a time, so that the order of arrival is known.
		clients := make([]*client, 5)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { clients[i] = ask(t.Context(), e, `{"max_tokens":11,`+hello+`}`) })
			synctest.Wait()
		}
		r := scrape(t, e)
		if *r.Running != 2 || *r.Waiting != 3 {
			t.Errorf("%v running, %v waiting", *r.Running, *r.Waiting)
		}
		all.Wait()
		for i, c := range clients {
			want := time.Duration(i/2)*200*time.Millisecond + 100*time.Millisecond
			if got := c.content()[0]; got != want {
				t.Errorf("request %d has its first token at %s, want %s", i, got, want)
			}
		}
		r = scrape(t, e)
		if queue := r.Histograms["engine_queue"]; *r.Running != 0 || *r.Waiting != 0 || queue.Count != 5 || queue.Sum < 0.79 || queue.Sum > 0.81 {
			t.Errorf("%v running, %v waiting, queue %+v", *r.Running, *r.Waiting, queue)
		}
		if ttft := r.Histograms["engine_ttft"]; ttft.Sum < 1.29 || ttft.Sum > 1.31 {
			t.Errorf("TTFT must include the queue: sum %v", ttft.Sum)
		}
	})
}

func TestPromptsWaitForRoomInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, KVBlocks: 10, BlockSize: 16, NoPrefixCaching: true})
		// 100 tokens each: 7 blocks, so only one fits.
		body := `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("word", 93) + `"}]}`
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { ask(t.Context(), e, body) })
		}
		synctest.Wait()
		// One that would fit must not overtake.
		all.Go(func() { ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`) })
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 1 || *r.Waiting != 2 || *r.KV != 0.7 {
			t.Errorf("%v running, %v waiting, KV %v", *r.Running, *r.Waiting, *r.KV)
		}
		all.Wait()
		// One that is larger than the whole cache runs alone rather than never.
		all.Go(func() {
			ask(t.Context(), e, `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"`+strings.Repeat("word", 400)+`"}]}`)
		})
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 1 || *r.KV != 1 {
			t.Errorf("%v running, KV %v", *r.Running, *r.KV)
		}
		all.Wait()
	})
}

func TestClientThatLeavesFreesItsSeatAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, MaxSeqs: 1})
		ctx, leave := context.WithCancel(t.Context())
		queued, leaveQueue := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { ask(ctx, e, `{"max_tokens":1000,`+hello+`}`) })
		synctest.Wait()
		all.Go(func() { ask(queued, e, `{"max_tokens":1000,`+hello+`}`) })
		synctest.Wait()
		var next *client
		all.Go(func() { next = ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`) })
		synctest.Wait()

		leaveQueue()
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 1 || *r.Waiting != 1 || r.Finished["abort"] != 1 {
			t.Errorf("after the queued one left: %v running, %v waiting, %v aborted", *r.Running, *r.Waiting, r.Finished["abort"])
		}
		time.Sleep(155 * time.Millisecond)
		left := time.Now()
		leave()
		synctest.Wait()
		r := scrape(t, e)
		if *r.Running != 1 || *r.Waiting != 0 || r.Finished["abort"] != 2 || *r.GenerationTokens != 6 {
			t.Errorf("after the running one left: %v running, %v waiting, %v aborted, %v tokens", *r.Running, *r.Waiting, r.Finished["abort"], *r.GenerationTokens)
		}
		all.Wait()
		if got := next.began.Add(next.content()[0]).Sub(left); got != 100*time.Millisecond {
			t.Errorf("the next had its first token %s after the seat was free", got)
		}
		r = scrape(t, e)
		if *r.Running != 0 || *r.KV != 0 || r.Finished["length"] != 1 || r.Histograms["engine_e2e"].Count != 1 {
			t.Errorf("at the end: %+v", r)
		}
	})
}

func TestBrokenConnectionIsAnAbortToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{ITL: 10 * time.Millisecond})
		c := &client{began: time.Now(), broken: true}
		e.ServeHTTP(c, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"max_tokens":1000,`+hello+`}`)))
		if r := scrape(t, e); *r.Running != 0 || r.Finished["abort"] != 1 || *r.KV != 0 {
			t.Errorf("%v running, %v aborted", *r.Running, r.Finished["abort"])
		}
		// An answer that was complete before it could be written is no abort.
		e.ServeHTTP(c, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"max_tokens":1,`+hello+`}`)))
		if r := scrape(t, e); *r.Running != 0 || r.Finished["abort"] != 1 || r.Finished["length"] != 1 {
			t.Errorf("%v running, finished %v", *r.Running, r.Finished)
		}
	})
}

func TestSeatGrantedToOneWhoLeavesIsGivenBack(t *testing.T) {
	e := New(Options{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	given, refused := 0, 0
	for range 200 {
		at, err := e.enter(gone, 5)
		if err == nil {
			given++
			e.mu.Lock()
			e.leaveLocked(at)
			e.mu.Unlock()
		} else {
			refused++
		}
		if e.line.running != 0 || e.line.used != 0 || len(e.line.waiting) != 0 {
			t.Fatalf("%d given, %d refused: %+v", given, refused, e.line)
		}
	}
	if refused == 0 {
		t.Error("nobody left")
	}
}

// Random comings and goings must leave nothing behind.
func TestNothingIsHeldAfterEverybodyHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond, MaxSeqs: 7, KVBlocks: 40, TokensPerEvent: 2})
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				time.Sleep(time.Duration(i*7%200) * time.Millisecond)
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(1+i*37%900)*time.Millisecond)
				defer leave()
				ask(ctx, e, fmt.Sprintf(`{"max_tokens":%d,"n":%d,%s}`, 1+i%60, 1+i%3, hello))
			})
		}
		all.Wait()
		r := scrape(t, e)
		total := 0.0
		for _, n := range r.Finished {
			total += n
		}
		if *r.Running != 0 || *r.Waiting != 0 || *r.KV != 0 || total != 300 || e.line.used != 0 {
			t.Errorf("%v running, %v waiting, KV %v, %v of 300 finished, %d blocks", *r.Running, *r.Waiting, *r.KV, total, e.line.used)
		}
	})
}
