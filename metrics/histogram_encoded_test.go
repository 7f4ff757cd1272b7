package metrics

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func TestAHistogramIsReadAsItWasWritten(t *testing.T) {
	for _, h := range []Histogram{
		{Bounds: []float64{}, Counts: []float64{}},
		{Bounds: []float64{300, 500}, Counts: []float64{200, 201}, Sum: 8000, Count: 203},
	} {
		got, err := DecodeHistogram(h.Encode())
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%+v became %+v, %v", h, got, err)
		}
	}
}

func TestABrokenHistogramIsRefused(t *testing.T) {
	good := Histogram{Bounds: []float64{1, 2}, Counts: []float64{1, 2}, Sum: 3, Count: 2}
	for name, b := range map[string][]byte{
		"nothing":         nil,
		"cut":             good.Encode()[:20],
		"longer":          append(good.Encode(), 0),
		"far too many":    {0xff, 0xff, 0xff, 0xff, 0x7f},
		"bounds fall":     Histogram{Bounds: []float64{2, 1}, Counts: []float64{1, 2}, Sum: 3, Count: 2}.Encode(),
		"negative count":  Histogram{Bounds: []float64{1}, Counts: []float64{-1}, Sum: 3, Count: 2}.Encode(),
		"infinite sum":    Histogram{Bounds: []float64{1}, Counts: []float64{1}, Sum: math.Inf(1), Count: 2}.Encode(),
		"not even a size": {0x80},
	} {
		if h, err := DecodeHistogram(b); err == nil {
			t.Errorf("%s is taken as %+v", name, h)
		}
	}
}

func TestHistogramsOfAStepAddUpAndKeepTheirBounds(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 1, 0, time.UTC)
	var r Recorder
	for range 2 {
		r.ObserveHistogram(at, Of{Deployment: "d", Replica: "r"}, EngineTTFT, Histogram{Bounds: []float64{300, 500}, Counts: []float64{100, 100}, Sum: 4000, Count: 100})
	}
	r.ObserveHistogram(at, Of{Deployment: "d", Replica: "r"}, TTFT, Histogram{Count: 1, Sum: 1}) // not an engine's
	buckets := r.Flush()
	if len(buckets) != 1 || buckets[0].Check() != nil {
		t.Fatalf("%+v, %v", buckets, buckets[0].Check())
	}
	spread, err := Spread(append(buckets, buckets...))
	if err != nil || len(spread) != len(Resolutions) {
		t.Fatalf("%d buckets, %v", len(spread), err)
	}
	w := Window{From: at.Truncate(time.Minute), To: at.Truncate(time.Minute).Add(2 * time.Minute), Step: time.Minute}
	s, err := SeriesOf(EngineTTFT, w, spread[1:2])
	if err != nil {
		t.Fatal(err)
	}
	if s.Summary.N != 400 || *s.Summary.Average != 40 || *s.Summary.Estimates[3].AtMost != 300 || s.Estimates[0][1].Value != nil || s.Average[1] != nil {
		t.Errorf("%+v", s)
	}
}
