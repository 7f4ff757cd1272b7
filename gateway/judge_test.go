package gateway

import (
	"net/http"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestRequestsAreJudgedByTheTargetsInForce(t *testing.T) {
	const ms = time.Millisecond
	chat := factory.Targets{TTFT: 500 * ms, ITL: 250 * ms}
	batch := factory.Targets{OutputRate: 10}
	for name, c := range map[string]struct {
		targets factory.Targets
		ending  ending
		want    judgement
	}{
		"quick":                                  {chat, ending{status: 200, ttft: 100 * ms, itl: 20 * ms}, good},
		"just in time":                           {chat, ending{status: 200, ttft: 500 * ms, itl: 250 * ms}, good},
		"slow first token":                       {chat, ending{status: 200, ttft: 500*ms + 1, itl: 20 * ms}, bad},
		"slow gaps":                              {chat, ending{status: 200, ttft: 100 * ms, itl: 250*ms + 1}, bad},
		"not streamed":                           {chat, ending{status: 200, took: time.Minute}, good},
		"the client's fault":                     {chat, ending{status: 400, flag: factory.FlagFailed}, notJudged},
		"not found by the engine":                {chat, ending{status: 404}, notJudged},
		"the engine's fault":                     {chat, ending{status: 502, flag: factory.FlagFailed}, bad},
		"no replica":                             {chat, ending{status: 503}, bad},
		"failed under a header that was sent":    {chat, ending{status: 200, flag: factory.FlagFailed}, bad},
		"broken off":                             {chat, ending{status: 200, flag: factory.FlagTruncated, ttft: 10 * ms}, bad},
		"left, having waited too long":           {chat, ending{status: 499, flag: factory.FlagAbortedPrefill, stream: true, took: 501 * ms}, bad},
		"left the queue, having waited too long": {chat, ending{status: 499, flag: factory.FlagAbortedQueue, took: 501 * ms}, bad},
		"left early":                             {chat, ending{status: 499, flag: factory.FlagAbortedPrefill, stream: true, took: 500 * ms}, notJudged},
		"left, and nothing was promised":         {batch, ending{status: 499, flag: factory.FlagAbortedPrefill, stream: true, took: time.Hour}, notJudged},
		"left late as the first token came":      {chat, ending{status: 499, flag: factory.FlagAborted, stream: true, took: 501 * ms}, bad},
		"left early as the first token came":     {chat, ending{status: 499, flag: factory.FlagAborted, stream: true, took: 500 * ms}, notJudged},
		"not streamed, left while it was made":   {chat, ending{status: 499, flag: factory.FlagAbortedPrefill, took: time.Minute}, notJudged},
		"left in the middle, content":            {chat, ending{status: 499, flag: factory.FlagAborted, stream: true, ttft: 10 * ms, itl: 20 * ms}, good},
		"left in the middle, bored":              {chat, ending{status: 499, flag: factory.FlagAborted, stream: true, ttft: 10 * ms, itl: 300 * ms}, bad},
		"batch at its rate":                      {batch, ending{status: 200, took: 10 * time.Second, tokens: 100}, good},
		"batch below its rate":                   {batch, ending{status: 200, took: 10 * time.Second, tokens: 99}, bad},
		"batch without output, such as a vector": {batch, ending{status: 200, took: 10 * time.Second}, good},
		"nothing promised":                       {factory.Targets{}, ending{status: 200, ttft: time.Hour, itl: time.Hour}, good},
	} {
		if got := judge(c.targets, c.ending); got != c.want {
			t.Errorf("%s: judged %d, want %d", name, got, c.want)
		}
	}
}

func TestARequestsMeanGapIsOverItsTokens(t *testing.T) {
	at := time.Now()
	var m meter
	if m.meanGap() != 0 {
		t.Errorf("without a token: %s", m.meanGap())
	}
	m.gap(mark{count: 1}, at)
	m.gap(mark{count: 5}, at.Add(400*time.Millisecond)) // four tokens in one event
	m.gap(mark{count: 6}, at.Add(500*time.Millisecond))
	if got := m.meanGap(); got != 100*time.Millisecond {
		t.Errorf("mean gap %s of five tokens in 500 ms", got)
	}
}

func TestWhatAKeyDidIsKeptBesideWhatAllDid(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, call int) {
		if call == 2 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		sse(w, role, `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\n", `data: {"choices":[{"index":0,"delta":{"content":"b"}}]}`+"\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`+"\n\n", done)
	})
	b := newBench(t, []string{e.URL}, func(b *bench) { b.routes[0].Deployment.Workload = factory.Interactive })
	for range 3 {
		b.chat(streamed)
	}
	b.row(3)
	b.until("all is handed over", func() bool { // what comes last, and what the refused one has
		last := 0.0
		b.set(func(w *world) {
			for _, x := range w.keyBuckets {
				if x.Name == metrics.Decode {
					last += x.Count
				}
			}
		})
		return last == 2 && b.count()[metrics.Requests] == 3
	})
	b.set(func(w *world) {
		all, key := map[metrics.Name][2]float64{}, map[metrics.Name][2]float64{}
		for _, x := range w.buckets {
			all[x.Name] = [2]float64{all[x.Name][0] + x.Count, all[x.Name][1] + x.Sum}
		}
		for _, x := range w.keyBuckets {
			if x.TenantID != "tenant1" || x.KeyID != "key1" || x.ReplicaID != "" {
				t.Errorf("whose is %+v?", x)
			}
			key[x.Name] = [2]float64{key[x.Name][0] + x.Count, key[x.Name][1] + x.Sum}
		}
		for name, want := range map[metrics.Name][2]float64{
			metrics.Good: {2, 2}, metrics.Bad: {}, metrics.Requests: {3, 3}, metrics.InputTokens: {2, 14}, metrics.CachedTokens: {2, 8}, metrics.OutputTokens: {2, 4},
			metrics.PromptLength: {2, 14}, metrics.OutputLength: {2, 4},
		} {
			if all[name] != want || key[name] != want {
				t.Errorf("%s: all %v, key %v, want %v", name, all[name], key[name], want)
			}
		}
		for _, name := range []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E, metrics.Decode, metrics.Queue} {
			if all[name][0] == 0 || all[name] != key[name] {
				t.Errorf("%s: all %v, key %v", name, all[name], key[name])
			}
		}
	})
}
