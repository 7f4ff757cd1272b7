package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
)

// historyDays is how far back the demo's synthetic past reaches.
const historyDays = 7

// past describes how a deployment was used before the demo was started.
type past struct {
	perHour    float64 // requests, at noon of a working day
	ttft, itl  float64 // milliseconds, median
	prompt     int     // tokens, mean
	output     int
	kv         float64 // share in use at noon
	keys       []string
	cachedPart float64
}

var demoPast = map[string]past{
	demoChat:  {perHour: 500, ttft: 78, itl: 17.5, prompt: 140, output: 80, kv: 0.12, keys: []string{demoKeyAcme, demoKeyGlobex}, cachedPart: 0.3},
	demoCoder: {perHour: 200, ttft: 165, itl: 12.5, prompt: 1900, output: 250, kv: 0.28, keys: []string{demoKeyAcme}, cachedPart: 0.5},
	demoBatch: {perHour: 60, ttft: 470, itl: 29, prompt: 1500, output: 320, kv: 0.35, keys: []string{demoKeyGlobex}},
}

// writeHistory gives the demo a past, so that long ranges and the usage page have
// something to show: ledger rows and, from the very same requests, metrics. It
// is written once for a data folder.
func writeHistory(ctx context.Context, st *store.Store, deployments []factory.Deployment, secrets *demoSecrets, now time.Time) error {
	const done = "demo_history_written"
	if _, err := st.Setting(ctx, done); err == nil {
		return nil
	} else if factory.KindOf(err) != factory.NotFound {
		return err
	}
	keys, err := historyKeys(ctx, st, secrets)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(7, uint64(now.Unix())))
	from := now.Truncate(time.Hour).AddDate(0, 0, -historyDays)
	for _, d := range deployments {
		p, known := demoPast[d.Name]
		if !known {
			continue
		}
		h := historian{deployment: d, past: p, rnd: rnd, recorder: &metrics.Recorder{}, now: now}
		for _, name := range p.keys {
			h.keys = append(h.keys, keys[name])
		}
		for hour := from; hour.Before(now); hour = hour.Add(time.Hour) {
			h.hour(hour)
		}
		rows, err := coarse(h.recorder.Flush(), now)
		if err != nil {
			return err
		}
		if err := st.BackfillBuckets(ctx, rows); err != nil {
			return fmt.Errorf("metrics of %s: %w", d.Name, err)
		}
		for at := 0; at < len(h.usage); at += 1000 {
			if err := st.AppendUsage(ctx, h.usage[at:min(at+1000, len(h.usage))]); err != nil {
				return fmt.Errorf("usage of %s: %w", d.Name, err)
			}
		}
	}
	return st.SaveSetting(ctx, done, now.Format(time.RFC3339))
}

func historyKeys(ctx context.Context, st *store.Store, secrets *demoSecrets) (map[string]factory.Key, error) {
	out := map[string]factory.Key{}
	for name, secret := range secrets.Keys {
		k, err := st.KeyByHash(ctx, factory.HashSecret(secret))
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		out[name] = k
	}
	if len(out) < 2 {
		return nil, errors.New("the demo's keys are missing from demo.json")
	}
	return out, nil
}

// coarse spreads fine buckets over the kept resolutions and leaves out what a
// sweep would remove again at once.
func coarse(fine []metrics.Bucket, now time.Time) ([]metrics.Bucket, error) {
	all, err := metrics.Spread(fine)
	if err != nil {
		return nil, err
	}
	keep := map[time.Duration]time.Duration{}
	for _, r := range metrics.Resolutions {
		keep[r.Step] = r.Keep
	}
	kept := all[:0]
	for _, b := range all {
		if now.Sub(b.Start) <= keep[b.Step] {
			kept = append(kept, b)
		}
	}
	return kept, nil
}

// historian invents one deployment's requests.
type historian struct {
	deployment factory.Deployment
	past       past
	keys       []factory.Key
	rnd        *rand.Rand
	recorder   *metrics.Recorder
	usage      []factory.Usage
	now        time.Time // where the past ends
}

// busy is the share of the noon load at a time: quiet nights and weekends.
func busy(t time.Time) float64 {
	hour := float64(t.Hour()) + float64(t.Minute())/60
	day := 0.25 + 0.75*math.Max(0, math.Sin((hour-6)/13*math.Pi))
	if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		day *= 0.45
	}
	return day
}

func (h *historian) hour(start time.Time) {
	load := busy(start)
	end := start.Add(time.Hour)
	if end.After(h.now) {
		end = h.now
	}
	for at := start; at.Before(end); {
		at = at.Add(time.Duration(h.rnd.ExpFloat64() / (h.past.perHour * load) * float64(time.Hour)))
		if at.Before(end) {
			h.request(at.Truncate(time.Microsecond), load)
		}
	}
	// The engine's gauge, at a few moments of the hour: enough for average and peak.
	for m := range 12 {
		at := start.Add(time.Duration(m) * 5 * time.Minute)
		if !at.Before(end) {
			break
		}
		h.observe(at, metrics.KVCache, math.Min(0.98, h.past.kv*load*h.around(1, 0.35)), 1)
	}
}

func (h *historian) request(at time.Time, load float64) {
	// Queueing makes busy hours a little slower, most of all at the tail.
	ttft := h.past.ttft * (0.92 + 0.25*load) * h.around(1, 0.18)
	if h.rnd.Float64() < 0.02*load {
		ttft *= 2 + 3*h.rnd.Float64()
	}
	itl := h.past.itl * (0.97 + 0.1*load) * h.around(1, 0.05)
	prompt := max(8, int(float64(h.past.prompt)*h.around(1, 0.5)))
	output := max(2, int(float64(h.past.output)*h.around(1, 0.5)))
	e2e := ttft + itl*float64(output-1)
	key := h.keys[h.rnd.IntN(len(h.keys))]
	of := [...]metrics.Of{{Deployment: h.deployment.ID}, {Deployment: h.deployment.ID, Tenant: key.TenantID, Key: key.ID}}
	observe := func(name metrics.Name, value float64, n int) {
		for _, o := range of {
			h.recorder.ObserveOf(at, o, name, value, n)
		}
	}
	observe(metrics.TTFT, ttft, 1)
	// Gaps of one request differ a little around their mean.
	for _, part := range []float64{0.9, 1, 1, 1.15} {
		observe(metrics.ITL, itl*part, max(1, (output-1)/4))
	}
	observe(metrics.E2E, e2e, 1)
	observe(metrics.Decode, e2e-ttft, 1)
	observe(metrics.Queue, 0, 1)
	observe(metrics.Requests, 1, 1)
	observe(h.judged(ttft, itl, e2e, output), 1, 1)
	cached := int64(float64(prompt) * h.past.cachedPart * h.rnd.Float64())
	observe(metrics.InputTokens, float64(prompt), 1)
	observe(metrics.OutputTokens, float64(output), 1)
	if cached > 0 {
		observe(metrics.CachedTokens, float64(cached), 1)
	}
	// What the engine would have counted is the same.
	h.observe(at, metrics.PromptTokens, float64(prompt), 1)
	h.observe(at, metrics.GenerationTokens, float64(output), 1)
	observe(metrics.PromptLength, float64(prompt), 1)
	observe(metrics.OutputLength, float64(output), 1)
	h.usage = append(h.usage, factory.Usage{
		ID: factory.NewID(), TenantID: key.TenantID, KeyID: key.ID, DeploymentID: h.deployment.ID,
		PriceID: h.deployment.Price.ID, Endpoint: "chat.completions",
		ModelAsked: h.deployment.PublicName, ModelServed: h.deployment.PublicName,
		Status: 200, Stream: true, Attempts: 1,
		PromptTokens: int64(prompt), CachedTokens: cached, CompletionTokens: int64(output),
		StartedAt: at, TTFTMS: &ttft, E2EMS: &e2e,
	})
}

// judged is how the gateway would have judged an invented request.
func (h *historian) judged(ttft, itl, e2e float64, output int) metrics.Name {
	t := h.deployment.Targets()
	within := func(ms float64, target time.Duration) bool {
		return target == 0 || ms <= float64(target)/float64(time.Millisecond)
	}
	if within(ttft, t.TTFT) && within(itl, t.ITL) && float64(output) >= t.OutputRate*e2e/1000 {
		return metrics.Good
	}
	return metrics.Bad
}

func (h *historian) observe(at time.Time, name metrics.Name, value float64, n int) {
	h.recorder.Observe(at, h.deployment.ID, "", name, value, n)
}

// around draws a log-normal factor with the given median and spread.
func (h *historian) around(median, spread float64) float64 {
	return median * math.Exp(spread*h.rnd.NormFloat64())
}
