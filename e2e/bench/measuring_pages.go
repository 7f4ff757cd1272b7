//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/store"
	"tokenfactory/web"
	"tokenfactory/web/paths"
)

// pageReport is how long a page, or a call that pages and loops rest on, took.
type pageReport struct {
	Database string  `json:"database"`
	What     string  `json:"what"`
	Loads    int     `json:"loads"`
	P50MS    float64 `json:"p50_ms"`
	P95MS    float64 `json:"p95_ms"`
	CPUMS    float64 `json:"cpu_ms"`             // of this process, the mean; the wall says less on a machine with other work
	KiB      float64 `json:"kib,omitempty"`      // of HTML, at most
	GzipKiB  float64 `json:"gzip_kib,omitempty"` // of the same, as a proxy would compress it
	LimitMS  float64 `json:"limit_ms"`
}

// maxPageKiB is the most that a page may have.
const maxPageKiB = 500

// site is the console in this process, with an operator signed in.
type site struct {
	handler http.Handler
	cookies []*http.Cookie
}

func newSite(st *store.Store, now time.Time) (*site, error) {
	e, err := web.New(web.Site{Store: st, Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	s := &site{handler: e}
	form := url.Values{"email": {benchEmail}, "password": {benchPassword}}
	req := httptest.NewRequest(http.MethodPost, paths.SignIn, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, req)
	if rec.Code != http.StatusSeeOther {
		return nil, fmt.Errorf("the operator of the bench cannot sign in: %d", rec.Code)
	}
	s.cookies = rec.Result().Cookies()
	return s, nil
}

// load asks for one page and says how long the server took.
func (s *site) load(path string) ([]byte, time.Duration, error) {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for _, c := range s.cookies {
		req.AddCookie(c)
	}
	rec := httptest.NewRecorder()
	begun := time.Now()
	s.handler.ServeHTTP(rec, req)
	took := time.Since(begun)
	if rec.Code != http.StatusOK {
		return nil, took, fmt.Errorf("GET %s is answered with %d", path, rec.Code)
	}
	return rec.Body.Bytes(), took, nil
}

// pageLoads are the pages of which the server time is measured. Those of a deployment are
// asked for one after the other over all that have the buckets.
func pageLoads(w world) []struct {
	what string
	path func(i int) string
} {
	tab := func(of []string, query string) func(int) string {
		return func(i int) string { return paths.DeploymentMetrics(of[i*37%len(of)]) + query }
	}
	always := func(path string) func(int) string { return func(int) string { return path } }
	return []struct {
		what string
		path func(i int) string
	}{
		{"Metrics tab, 1 h", tab(w.Opened, "?range=1h")},
		{"Metrics tab, 24 h", tab(w.Opened, "?range=24h")},
		{"Metrics tab, 7 d", tab(w.Opened, "?range=7d")},
		{"Metrics tab, 30 d", tab(w.All, "?range=30d")},
		{"Metrics tab, 24 h, compared", tab(w.Opened, "?range=24h&compare=previous")},
		{"Objectives", always(paths.Objectives)},
		{"Usage, 90 days", always(paths.Usage + "?from=" + w.At.AddDate(0, 0, 1-seedUsageDays).Format(time.DateOnly) + "&to=" + w.At.Format(time.DateOnly))},
	}
}

// pages measures the pages on one database, and what they and the watcher read.
func (m measuring) pages(ctx context.Context, database string, st *store.Store, w world) ([]pageReport, error) {
	s, err := newSite(st, w.At)
	if err != nil {
		return nil, err
	}
	var out []pageReport
	for _, p := range pageLoads(w) {
		if !strings.Contains(p.what, m.page) {
			continue
		}
		r := pageReport{Database: database, What: p.what, Loads: m.loads, LimitMS: 100}
		var took []float64
		var began time.Duration
		for i := range m.loads + 2 {
			if i == 2 {
				began = processTime()
			}
			body, t, err := s.load(p.path(i))
			if err != nil {
				return nil, err
			}
			if i < 2 {
				continue // statements are prepared and caches filled, as after a start
			}
			took = append(took, milliseconds(t))
			if size := float64(len(body)) / 1024; size > r.KiB {
				r.KiB, r.GzipKiB = size, zipped(body)
			}
		}
		r.P50MS, r.P95MS = rankOf(took, 0.50), rankOf(took, 0.95)
		r.CPUMS = milliseconds(processTime()-began) / float64(m.loads)
		say("  %s, %s: p50 %.0f ms, p95 %.0f ms, CPU %.0f ms.", database, p.what, r.P50MS, r.P95MS, r.CPUMS)
		out = append(out, r)
	}
	more, err := m.calls(ctx, database, st, w)
	return append(out, more...), err
}

// calls measures what is read for everybody at once.
func (m measuring) calls(ctx context.Context, database string, st *store.Store, w world) ([]pageReport, error) {
	watcher := &slo.Watcher{Store: unsaved{st}, Now: func() time.Time { return w.At }, Log: slog.New(slog.DiscardHandler)}
	from := w.At.AddDate(0, 0, -seedUsageDays)
	var out []pageReport
	for _, c := range []struct {
		what  string
		times int
		limit float64
		call  func() error
	}{
		// The watcher looks every 30 s, and may take a tenth of that.
		{"the watcher's look at everything", 5, 3000, func() error { return watcher.Look(ctx) }},
		{"good and bad of all, 30 d", 10, 100, func() error {
			judged, err := st.JudgedIn(ctx, []metrics.Piece{{From: w.At.Add(-factory.ObjectiveWindow).Truncate(time.Hour), To: w.At, Step: time.Hour}})
			if err == nil && len(judged[0]) != seedDeployments {
				err = fmt.Errorf("%d of %d deployments were judged", len(judged[0]), seedDeployments)
			}
			return err
		}},
		{"usage of all, 90 d, in the store", 10, 100, func() error {
			_, err := st.UsageOfDays(ctx, "", from, w.At, billing.Days(from, w.At, time.UTC))
			return err
		}},
	} {
		if !strings.Contains(c.what, m.page) {
			continue
		}
		var took []float64
		var began time.Duration
		for i := range c.times + 1 {
			if i == 1 {
				began = processTime()
			}
			begun := time.Now()
			if err := c.call(); err != nil {
				return nil, fmt.Errorf("%s: %w", c.what, err)
			}
			if i > 0 {
				took = append(took, milliseconds(time.Since(begun)))
			}
		}
		r := pageReport{Database: database, What: c.what, Loads: c.times, P50MS: rankOf(took, 0.5), P95MS: rankOf(took, 0.95), LimitMS: c.limit}
		r.CPUMS = milliseconds(processTime()-began) / float64(c.times)
		say("  %s, %s: p50 %.0f ms, p95 %.0f ms, CPU %.0f ms.", database, c.what, r.P50MS, r.P95MS, r.CPUMS)
		out = append(out, r)
	}
	return out, nil
}

// unsaved keeps a look of the watcher from changing the seed. What it would say is measured
// elsewhere; looking is what it does all day.
type unsaved struct{ *store.Store }

func (unsaved) SaveAlert(context.Context, factory.Alert, []factory.Change, json.RawMessage, time.Time) error {
	return errors.New("the bench keeps no alerts")
}

// processTime is the processor time that this process took so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rankOf is the nearest rank, as percentiles are everywhere else.
func rankOf(values []float64, q float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

func zipped(body []byte) float64 {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, bytes.NewReader(body)); err != nil || z.Close() != nil {
		return 0
	}
	return float64(b.Len()) / 1024
}
