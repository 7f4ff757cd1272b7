package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
)

// figures is what a program reads of a deployment's measurements.
type figures struct {
	T      []time.Time
	Layers map[string]map[string]struct {
		Summary struct {
			N           float64
			Avg, Sum    *float64
			Percentiles map[string]*float64
			Estimates   map[string]metrics.Estimate
		}
		Series *struct {
			Avg, Sum []*float64
		}
	}
}

// hour is the API's query for the hour before noon, in steps of as many seconds.
func hour(s *site, step string) string {
	return "?" + url.Values{"from": {s.now.Add(-time.Hour).Format(time.RFC3339)}, "to": {s.now.Format(time.RFC3339)}, "step": {step}}.Encode()
}

func (s *site) figures(query string) (figures, string) {
	s.t.Helper()
	status, body := s.programSends("", http.MethodGet, "/api/v1/deployments/acme-chat/metrics"+query, "")
	if status != http.StatusOK {
		s.t.Fatalf("%d: %s", status, body)
	}
	var out figures
	s.must(json.Unmarshal([]byte(body), &out))
	return out, body
}

// measure keeps what a recorder was told.
func (s *site) measure(tell func(r *metrics.Recorder)) {
	s.t.Helper()
	var r metrics.Recorder
	tell(&r)
	s.must(s.store.MergeBuckets(s.t.Context(), r.Flush()))
}

func histogram(at time.Time, replica string, bounds, counts []float64, count, sum float64) func(*metrics.Recorder) {
	return func(r *metrics.Recorder) {
		r.ObserveHistogram(at, metrics.Of{Deployment: "d-acme", Replica: replica}, metrics.EngineTTFT, metrics.Histogram{Bounds: bounds, Counts: counts, Count: count, Sum: sum})
	}
}

func is(v *float64, want float64) bool { return v != nil && *v > want-1e-6 && *v < want+1e-6 }

func TestEM05NothingMeasuredIsNullAndNoTraffic(t *testing.T) {
	s := newSite(t)
	s.measure(func(r *metrics.Recorder) {
		r.Observe(s.now.Add(-time.Minute), "d-globex", "r1", metrics.TTFT, 100, 5)
	})
	got, body := s.figures("")
	ttft := got.Layers["user"]["ttft"]
	if ttft.Summary.N != 0 || ttft.Summary.Percentiles["p50"] != nil || ttft.Series != nil || len(ttft.Summary.Percentiles) != 4 {
		t.Errorf("%+v", ttft)
	}
	if strings.Contains(body, "NaN") || strings.Contains(body, "Inf") {
		t.Error("a number that is none")
	}
	status, other := s.programSends("", http.MethodGet, "/api/v1/deployments/globex-chat/metrics", "")
	if status != http.StatusOK || strings.Contains(other, `"ttft_ms":{"p50":null`) {
		t.Errorf("%d: the other deployment has no numbers", status)
	}
	// A page with an older request, or it would only say how to send the first.
	s.measure(func(r *metrics.Recorder) {
		r.Observe(s.now.Add(-3*time.Hour), "d-acme", "r1", metrics.E2E, 100, 1)
	})
	page := s.signIn("olga@factory.example").page("/deployments/d-acme/metrics")
	if !strings.Contains(page, "No traffic") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page does not say that there was no traffic")
	}
}

func TestEM06FasterThanTheFirstBucketIsSaidAsABound(t *testing.T) {
	s := newSite(t)
	s.measure(histogram(s.now.Add(-time.Minute), "r1", []float64{300, 500}, []float64{200, 200}, 200, 8000))
	got, _ := s.figures("")
	x := got.Layers["infrastructure"]["engine_ttft"]
	if e := x.Summary.Estimates["p99"]; !is(e.AtMost, 300) || !is(x.Summary.Avg, 40) {
		t.Errorf("%+v", x.Summary)
	}
	s.measure(func(r *metrics.Recorder) { r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.E2E, 100, 1) })
	page := strings.ReplaceAll(s.signIn("olga@factory.example").page("/deployments/d-acme/metrics"), "\u00a0", " ")
	if !strings.Contains(page, "≤ 300 ms") || !strings.Contains(page, "40.0 ms") || strings.Contains(page, "297 ms") || strings.Contains(page, "285 ms") || strings.Contains(page, ",285") {
		t.Errorf("the page: %s", page)
	}
}

func TestEM07SlowerThanTheLastBucketIsNoNumber(t *testing.T) {
	s := newSite(t)
	s.measure(histogram(s.now.Add(-time.Minute), "r1", []float64{30000, 60000}, []float64{80, 90}, 100, 3e6))
	got, _ := s.figures("")
	of := got.Layers["infrastructure"]["engine_ttft"].Summary.Estimates
	if !is(of["p50"].Value, 18750) {
		t.Errorf("p50 %+v", of["p50"])
	}
	for _, p := range []string{"p95", "p99"} {
		if of[p].Value != nil || !is(of[p].Above, 60000) {
			t.Errorf("%s %+v", p, of[p])
		}
	}
	s.measure(func(r *metrics.Recorder) { r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.E2E, 100, 1) })
	page := strings.ReplaceAll(s.signIn("olga@factory.example").page("/deployments/d-acme/metrics"), "\u00a0", " ")
	if !strings.Contains(page, "> 60 s") {
		t.Errorf("the page: %s", page)
	}
}

func TestEM08PercentilesOfReplicasAndStepsAreMergedNotAveraged(t *testing.T) {
	s := newSite(t)
	bounds := []float64{100, 5000, 10000}
	s.measure(histogram(s.now.Add(-40*time.Minute), "a", bounds, []float64{900, 900, 900}, 900, 45000))
	s.measure(histogram(s.now.Add(-20*time.Minute), "b", bounds, []float64{0, 0, 100}, 100, 750000))
	got, _ := s.figures(hour(s, "3600"))
	of := got.Layers["infrastructure"]["engine_ttft"].Summary.Estimates
	if !is(of["p95"].Value, 7500) || of["p50"].Value == nil || *of["p50"].Value < 55.5 || *of["p50"].Value > 55.6 {
		t.Errorf("p50 %+v, p95 %+v", of["p50"], of["p95"])
	}
	one, _ := s.figures(hour(s, "3600") + "&replica=b")
	if x := one.Layers["infrastructure"]["engine_ttft"].Summary; x.N != 100 {
		t.Errorf("one replica alone has %v observations", x.N)
	}
}

func TestDA02AGapIsNullAndIdleIsZero(t *testing.T) {
	s := newSite(t)
	from := s.now.Add(-time.Hour)
	s.measure(func(r *metrics.Recorder) {
		for at := from; at.Before(s.now); at = at.Add(15 * time.Second) {
			switch minute := int(at.Sub(from).Minutes()); {
			case minute >= 5 && minute < 10:
			case minute >= 20 && minute < 25:
				r.Observe(at, "d-acme", "r1", metrics.Running, 0, 1)
			default:
				r.Observe(at, "d-acme", "r1", metrics.Running, 7, 1)
			}
		}
	})
	got, _ := s.figures(hour(s, "60"))
	running := got.Layers["infrastructure"]["running"]
	if running.Series == nil || len(running.Series.Avg) != 60 || len(got.T) != 60 {
		t.Fatalf("%+v", running)
	}
	for i, v := range running.Series.Avg {
		switch {
		case i >= 5 && i < 10:
			if v != nil {
				t.Errorf("minute %d is %v, not a gap", i, *v)
			}
		case i >= 20 && i < 25:
			if !is(v, 0) {
				t.Errorf("idle minute %d is no zero", i)
			}
		case !is(v, 7):
			t.Errorf("minute %d is not 7", i)
		}
	}
	if !is(running.Summary.Avg, 7*50.0/55) {
		t.Errorf("average %v counts the gap", *running.Summary.Avg)
	}
}

func TestMeasurementsAreAFileToo(t *testing.T) {
	s := newSite(t)
	s.measure(func(r *metrics.Recorder) {
		r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.TTFT, 100, 3)
		r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.Running, 4, 1)
	})
	olga := s.signIn("olga@factory.example")
	status, file := olga.get("/deployments/d-acme/metrics.csv?range=15m")
	if status != http.StatusOK || !strings.HasPrefix(file, "deployment,metric,unit,from,") || strings.Count(file, "\n") != 3 || !strings.Contains(file, "acme-chat,running,,2026-12-01T11:59:00Z,10,1,4,4,,,,,\n") {
		t.Errorf("%d: %s", status, file)
	}
	if status, _ = olga.get("/deployments/d-acme/metrics.csv?from=x&to=y"); status == http.StatusOK {
		t.Error("a range that cannot be read gives a file")
	}
	if status, _ = s.signIn("mia@acme.example").get("/deployments/d-acme/metrics.csv"); status == http.StatusOK {
		t.Error("a member reads the operators' file")
	}
}

func TestTenantsSeeNothingOfEnginesAndMachines(t *testing.T) {
	s := newSite(t)
	s.measure(func(r *metrics.Recorder) {
		s.asks(r, "d-acme", "acme", 100, 3)
		r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.KVCache, 0.5, 1)
	})
	status, body := s.programSends("acme", http.MethodGet, "/api/v1/deployments/acme-chat/metrics", "")
	if status != http.StatusOK || strings.Contains(body, `"infrastructure"`) || !strings.Contains(body, `"kv_cache":{"avg":null,"peak":null}`) || !strings.Contains(body, `"workload"`) {
		t.Errorf("%d: %s", status, body)
	}
	if status, file := s.programSends("acme", http.MethodGet, "/api/v1/deployments/acme-chat/metrics.csv", ""); status != http.StatusOK || strings.Contains(file, "kv_cache") || !strings.Contains(file, "acme-chat,ttft,ms,") {
		t.Errorf("%d: %s", status, file)
	}
}

func TestAFullPageStaysSmall(t *testing.T) {
	s := newSite(t)
	s.measure(func(r *metrics.Recorder) {
		for at := s.now.Add(-time.Hour); at.Before(s.now); at = at.Add(10 * time.Second) {
			odd := float64(at.Unix()%977) + 0.123456
			for _, m := range metrics.Catalogue {
				switch {
				case m.Layer == metrics.NodeLayer:
				case m.Shape == metrics.Bucketed:
					r.ObserveHistogram(at, metrics.Of{Deployment: "d-acme", Replica: "r1"}, m.Name, metrics.Histogram{Bounds: []float64{300, 900}, Counts: []float64{1, 3}, Count: 3, Sum: odd})
				case m.Unit == "%":
					r.Observe(at, "d-acme", "r1", m.Name, odd/1000, 1)
				default:
					r.Observe(at, "d-acme", "r1", m.Name, odd, 1)
					r.Observe(at, "d-acme", "r1", m.Name, odd*3, 2)
				}
			}
		}
	})
	olga := s.signIn("olga@factory.example")
	if status, page := olga.get("/deployments/d-acme/metrics?range=1h&compare=previous"); status != http.StatusOK || len(page) > 500<<10 {
		t.Errorf("%d with %d bytes", status, len(page))
	}
}
