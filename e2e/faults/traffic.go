package faults

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Load is what clients ask for.
type Load struct {
	Rate   float64 // requests a second; they come as they like, whatever became of earlier ones
	Prompt float64 // tokens, on average
	Output float64
}

// Serve has clients send n streamed requests, and the machine read its engine meanwhile.
// It returns when everything that was measured is in the store. What became of a request is
// the client's own affair.
func (p *Plant) Serve(ctx context.Context, rng *rand.Rand, l Load, n int) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var reader, clients sync.WaitGroup
	reader.Go(func() { p.machine.keepReading(reading, p) })
	reader.Go(func() { p.keepTime(reading) })
	next := time.Now()
	for range n {
		body := ask(int(l.Prompt*around(rng)), int(math.Round(max(2, l.Output*around(rng)))))
		clients.Go(func() { p.send(ctx, body) })
		next = next.Add(time.Duration(rng.ExpFloat64() / l.Rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
	}
	clients.Wait()
	p.sent += n
	stop()
	reader.Wait()
	if err := p.machine.report(ctx, p.server.URL, p.engine.URL); err != nil {
		return err
	}
	return p.settle(ctx)
}

// around is a factor near 1.
func around(rng *rand.Rand) float64 { return 0.7 + 0.6*rng.Float64() }

// ask is a request for so many tokens.
func ask(prompt, output int) string {
	b, _ := json.Marshal(map[string]any{
		"model": model, "stream": true, "max_tokens": output,
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("word", prompt)}},
	})
	return string(b)
}

func (p *Plant) send(ctx context.Context, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Host = "llm.example.org"
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
