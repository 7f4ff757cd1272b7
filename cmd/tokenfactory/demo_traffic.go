package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// traffic is the demo's clients: two tenants that send requests as people and
// programs do, with pauses that do not depend on how quickly answers come.
type traffic struct {
	base    string // ends in /v1
	secrets *demoSecrets
	log     *slog.Logger
}

// client is one kind of user: whose key, which model, how often, how long.
type client struct {
	key       string
	model     string
	pause     time.Duration // mean; pauses are exponential
	promptMin int           // words
	promptMax int
	outputMin int // tokens
	outputMax int
	plain     float64 // share that does not stream
	leaves    float64 // share that closes the stream before its end
}

func (t traffic) clients() []client {
	return []client{
		{t.secrets.Keys[demoKeyAcme], "Qwen/Qwen2-0.5B-Instruct", 1500 * time.Millisecond, 8, 120, 20, 140, 0.1, 0.04},
		{t.secrets.Keys[demoKeyAcme], "Qwen/Qwen3-Coder-30B-A3B-Instruct", 2500 * time.Millisecond, 200, 1500, 80, 420, 0.05, 0.03},
		{t.secrets.Keys[demoKeyGlobex], "Qwen/Qwen2-0.5B-Instruct", 3 * time.Second, 8, 60, 10, 90, 0, 0.05},
		{t.secrets.Keys[demoKeyGlobex], "meta-llama/Llama-3.3-70B-Instruct", 5 * time.Second, 300, 1200, 120, 500, 0.6, 0},
	}
}

// mostUnderWay bounds the requests that one client has under way: should the engines be
// slow or gone, a demo must not pile up work without end.
const mostUnderWay = 24

// first sends one request for each kind of client until it is answered: a demo that
// says it is ready serves every model.
func (t traffic) first(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range t.clients() {
		c.outputMin, c.outputMax, c.leaves = 1, 1, 0
		for {
			err := t.send(limit, c, c.request(rnd))
			if err == nil {
				break
			}
			select {
			case <-limit.Done():
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("%s is not served: %w", c.model, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func (t traffic) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range t.clients() {
		rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
		g.Go(func() error {
			sends, sctx := errgroup.WithContext(ctx)
			sends.SetLimit(mostUnderWay)
			for {
				select {
				case <-ctx.Done():
					return sends.Wait()
				case <-time.After(time.Duration(rnd.ExpFloat64() * float64(c.pause))):
				}
				r := c.request(rnd)
				sends.TryGo(func() error {
					if err := t.send(sctx, c, r); err != nil && ctx.Err() == nil {
						t.log.Debug("demo request", "model", c.model, "err", err)
					}
					return nil
				})
			}
		})
	}
	return g.Wait()
}

// sending is one request, drawn before it is sent.
type sending struct {
	body   []byte
	leaves time.Duration // zero: stays to the end
}

var words = strings.Fields("please explain how the second stage of the pump controller decides when to open the valve and what the log lines around midnight tell about pressure flow current and temperature in the outer loop")

func (c client) request(rnd *rand.Rand) sending {
	n := c.promptMin + rnd.IntN(c.promptMax-c.promptMin+1)
	prompt := make([]string, n)
	for i := range prompt {
		prompt[i] = words[rnd.IntN(len(words))]
	}
	body, err := json.Marshal(map[string]any{
		"model":  c.model,
		"stream": rnd.Float64() >= c.plain,
		"messages": []map[string]string{
			{"role": "system", "content": "You are a helpful assistant of a demo."},
			{"role": "user", "content": strings.Join(prompt, " ")},
		},
		"max_tokens": c.outputMin + rnd.IntN(c.outputMax-c.outputMin+1),
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	s := sending{body: body}
	if rnd.Float64() < c.leaves {
		s.leaves = time.Duration(200+rnd.IntN(900)) * time.Millisecond
	}
	return s
}

func (t traffic) send(ctx context.Context, c client, s sending) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if s.leaves > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.leaves)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/chat/completions", bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode >= 400 {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return err
}
