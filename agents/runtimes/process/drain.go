package process

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"tokenfactory/engines"
)

const (
	drainEvery = 250 * time.Millisecond
	// settle is how long gateways may take to hear that a replica takes no more:
	// until then an engine without work is not one without requests on their way.
	settle = 1500 * time.Millisecond
)

// drain waits until the engine has answered what it was asked, for at most patience.
// Engines abort what runs when they are told to end, so they are told afterwards. An
// engine that does not say what runs is not waited for.
func drain(c *child, t Target, patience time.Duration) {
	began := time.Now()
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for time.Since(began) < patience {
		idle, err := idle(t)
		if err != nil || (idle && time.Since(began) >= settle) {
			return
		}
		select {
		case <-c.exited:
			return
		case <-tick.C:
		}
	}
}

// idle reports whether an engine neither works on a request nor has one waiting.
func idle(t Target) (bool, error) {
	e, ok := engines.Find(t.Engine)
	if !ok {
		return false, errors.New("the engine is not known")
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(t.URL, "/")+e.MetricsPath, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", engines.AcceptMetrics)
	resp, err := local.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, errors.New("its metrics page answers " + resp.Status)
	}
	now, err := e.Read(resp.Body)
	if err != nil {
		return false, err
	}
	if now.Running == nil {
		return false, errors.New("it does not say what runs")
	}
	return *now.Running == 0 && (now.Waiting == nil || *now.Waiting == 0), nil
}
