package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"tokenfactory/metrics"
	"tokenfactory/slo"
)

const (
	// each is how many requests tell what is usual, and as many what went wrong.
	each = 48

	// Apart is how long after usual traffic something goes wrong: no rule that wakes somebody
	// looks back as far.
	Apart = 7 * time.Hour
)

// Try goes through a scenario with one seed, without alerts, and returns what the diagnosis
// finds.
func (s Scenario) Try(ctx context.Context, seed uint64) (found slo.Diagnosis, err error) {
	dir, err := os.MkdirTemp("", "tokenfactory-faults-")
	if err != nil {
		return found, err
	}
	defer os.RemoveAll(dir)
	rng := rand.New(rand.NewPCG(seed, uint64(len(s.Name))))
	p, err := New(ctx, dir, Options(rng))
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	load := s.Load(rng)
	if err := p.Serve(ctx, rng, load, each); err != nil {
		return found, err
	}
	if err := p.Pass(ctx, Apart); err != nil {
		return found, err
	}
	if err := s.Begin(rng, p.Engine); err != nil {
		return found, err
	}
	then, n := s.Then(rng, load, each)
	if err := p.Serve(ctx, rng, then, n); err != nil {
		return found, err
	}
	// What is measured in the present ten seconds is not whole yet, and not looked at.
	if err := p.Pass(ctx, metrics.Resolutions[0].Step); err != nil {
		return found, err
	}
	d, err := p.Diagnose(ctx)
	println(s.Name, seed, int(p.stood/time.Millisecond), d.Signature)
	return d, err
}
