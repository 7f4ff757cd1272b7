package metrics

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestWindowsFitAChartAndTheKeptData(t *testing.T) {
	for _, c := range []struct {
		length, age time.Duration // of the range, and of its end
		want        time.Duration
		step, base  time.Duration
	}{
		{15 * time.Minute, 0, 0, 10 * time.Second, 10 * time.Second},
		{time.Hour, 0, 0, 10 * time.Second, 10 * time.Second},
		{3 * time.Hour, 0, 0, 30 * time.Second, 10 * time.Second},
		{6 * time.Hour, 0, 0, time.Minute, time.Minute},
		{day, 0, 0, 5 * time.Minute, time.Minute},
		{3 * day, 0, 0, 15 * time.Minute, time.Minute},
		{7 * day, 0, 0, time.Hour, time.Hour},
		{30 * day, 0, 0, 2 * time.Hour, time.Hour},
		{400 * day, 0, 0, 48 * time.Hour, time.Hour},
		// Older than the fine buckets reach back.
		{15 * time.Minute, 7 * time.Hour, 0, time.Minute, time.Minute},
		{15 * time.Minute, 9 * day, 0, time.Hour, time.Hour},
		// A wanted step, and one that is not possible.
		{time.Hour, 0, 5 * time.Minute, 5 * time.Minute, time.Minute},
		{day, 0, time.Second, 5 * time.Minute, time.Minute},
		{time.Hour, 0, 1000 * day, 96 * time.Hour, time.Hour},
	} {
		to := noon.Add(-c.age)
		w, err := NewWindow(to.Add(-c.length), to, noon, c.want)
		if err != nil {
			t.Errorf("%s: %v", c.length, err)
			continue
		}
		if base := Base(w.Step, noon.Sub(w.From)); w.Step != c.step || base != c.base {
			t.Errorf("%s, %s ago, wanted %s: step %s of %s, want %s of %s", c.length, c.age, c.want, w.Step, base, c.step, c.base)
		}
	}
}

func TestEveryWindowHasAtMost360Points(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 20000 {
		to := noon.Add(-time.Duration(rng.Int64N(int64(30 * day))))
		length := 1 + time.Duration(rng.Int64N(int64(360*day)))
		if rng.IntN(2) == 0 {
			length = 1 + time.Duration(rng.Int64N(int64(8*time.Hour)))
		}
		from := to.Add(-length)
		w, err := NewWindow(from, to, noon, 0)
		if err != nil {
			t.Fatalf("%s to %s: %v", from, to, err)
		}
		if n := w.Points(); n < 1 || n > MaxPoints {
			t.Fatalf("%s: %d points of %s", length, n, w.Step)
		}
		if w.From.Sub(from).Abs() >= w.Step || !w.From.Equal(w.From.Truncate(w.Step)) || !w.To.Equal(to) {
			t.Fatalf("asked for %s, window begins at %s with step %s", from, w.From, w.Step)
		}
		base := Base(w.Step, noon.Sub(from))
		if base == 0 || w.Step%base != 0 {
			t.Fatalf("step %s cannot be filled from %s", w.Step, base)
		}
	}
}

func TestWindowsThatCannotBe(t *testing.T) {
	for what, ends := range map[string][2]time.Time{
		"backwards": {noon, noon.Add(-time.Hour)},
		"empty":     {noon, noon},
		"too old":   {noon.Add(-500 * day), noon.Add(-499 * day)},
		"too long":  {noon.Add(-2000 * day), noon},
	} {
		if w, err := NewWindow(ends[0], ends[1], noon, 0); err == nil {
			t.Errorf("%s: %+v", what, w)
		}
	}
}

func TestPreviousWindowEndsWhereThisBegins(t *testing.T) {
	w, err := NewWindow(noon.Add(-time.Hour), noon, noon, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := w.Previous()
	if !p.To.Equal(w.From) || p.Points() != w.Points() || p.Step != w.Step {
		t.Errorf("%+v before %+v", p, w)
	}
}

func TestStepWithoutSamplesIsAGapNotZero(t *testing.T) {
	w := Window{From: noon, To: noon.Add(30 * time.Second), Step: 10 * time.Second}
	for _, name := range []Name{TTFT, KVCache, Requests} {
		var buckets []Bucket
		for _, at := range []time.Duration{0, 20 * time.Second} {
			b := latency(t, noon.Add(at), 100)
			b.Name = name
			buckets = append(buckets, b)
		}
		s, err := SeriesOf(name, w, buckets)
		if err != nil {
			t.Fatal(err)
		}
		lines := s.Q
		if ShapeOf(name) != Distribution {
			lines = [][]*float64{s.Average, s.Peak}
		}
		if ShapeOf(name) == Counter {
			lines = [][]*float64{s.Sum}
		}
		for _, line := range lines {
			if line[0] == nil || line[1] != nil || line[2] == nil {
				t.Errorf("%s: %v, want a gap in the middle only", name, line)
			}
		}
		if !slices.Equal(s.N, []float64{1, 0, 1}) {
			t.Errorf("%s: sample counts %v", name, s.N)
		}
	}
}

func TestCaseEM05NothingToShowIsNullInJSON(t *testing.T) {
	w := Window{From: noon, To: noon.Add(20 * time.Second), Step: 10 * time.Second}
	for _, name := range []Name{TTFT, KVCache, Requests} {
		s, err := SeriesOf(name, w, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s)
		if err != nil || strings.Contains(string(b), "NaN") {
			t.Errorf("%s: %v %s", name, err, b)
		}
		if s.Summary.N != 0 || s.Summary.Average != nil || s.Summary.Peak != nil {
			t.Errorf("%s: summary %+v", name, s.Summary)
		}
		for _, q := range s.Summary.Q {
			if q != nil {
				t.Errorf("%s: a percentile of nothing: %v", name, *q)
			}
		}
	}
}

func TestPercentilesOverTimeAndReplicasComeFromAllValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	w := Window{From: noon, To: noon.Add(time.Hour), Step: 10 * time.Minute}
	var all []float64
	steps := make([][]float64, w.Points())
	var buckets []Bucket
	for range 3000 {
		after := time.Duration(rng.IntN(3600)) * time.Second
		v := distributions["log-normal"](rng)
		b := latency(t, noon.Add(after).Truncate(10*time.Second), v)
		b.ReplicaID = string(rune('a' + rng.IntN(4)))
		buckets = append(buckets, b)
		all = append(all, v)
		i := int(after / w.Step)
		steps[i] = append(steps[i], v)
	}
	// Neighbours belong to other windows and metrics.
	buckets = append(buckets, latency(t, noon.Add(-10*time.Second), 1e9), latency(t, w.To, 1e9))
	other := latency(t, noon, 1e9)
	other.Name = ITL
	buckets = append(buckets, other)
	s, err := SeriesOf(TTFT, w, buckets)
	if err != nil {
		t.Fatal(err)
	}
	if s.Summary.N != float64(len(all)) {
		t.Errorf("%v samples, want %d", s.Summary.N, len(all))
	}
	near := func(what string, got *float64, values []float64, q float64) {
		slices.Sort(values)
		want := exact(values, q)
		if got == nil || *got < want*0.99 || *got > want*1.01 {
			t.Errorf("%s p%v is %v, want %v", what, q*100, got, want)
		}
	}
	for p, q := range Percentiles {
		near("whole", s.Summary.Q[p], all, q)
		for i := range steps {
			near("step", s.Q[p][i], steps[i], q)
		}
	}
	slices.Sort(all)
	bound := exact(all, 0.9)
	if above := s.Summary.Above(bound); above < 0.08*s.Summary.N || above > 0.12*s.Summary.N {
		t.Errorf("%v of %v above the 90th percentile", above, s.Summary.N)
	}
}

func TestOrderOfBucketsDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 13))
	w := Window{From: noon, To: noon.Add(time.Minute), Step: 10 * time.Second}
	var buckets []Bucket
	for range 200 {
		buckets = append(buckets, latency(t, noon.Add(time.Duration(rng.IntN(6))*10*time.Second), float64(1+rng.IntN(1000))))
	}
	var first []byte
	for range 5 {
		rng.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
		s, err := SeriesOf(TTFT, w, buckets)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(s)
		if first == nil {
			first = b
		}
		if string(b) != string(first) {
			t.Fatalf("%s\n%s", first, b)
		}
	}
}

func TestGaugesAverageOverSamplesAndKeepPeaks(t *testing.T) {
	w := Window{From: noon, To: noon.Add(10 * time.Second), Step: 10 * time.Second}
	s, err := SeriesOf(KVCache, w, []Bucket{
		{Name: KVCache, ReplicaID: "a", Start: noon, Count: 2, Sum: 1.0, Max: 0.6},
		{Name: KVCache, ReplicaID: "b", Start: noon, Count: 2, Sum: 0.2, Max: 0.1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if *s.Average[0] != 0.3 || *s.Peak[0] != 0.6 || *s.Summary.Average != 0.3 || *s.Summary.Peak != 0.6 {
		t.Errorf("average %v, peak %v", *s.Average[0], *s.Peak[0])
	}
}

func TestBrokenSketchIsAnErrorNotAGap(t *testing.T) {
	b := latency(t, noon, 1)
	b.Sketch = []byte{0xff}
	if _, err := SeriesOf(TTFT, Window{From: noon, To: noon.Add(10 * time.Second), Step: 10 * time.Second}, []Bucket{b}); err == nil {
		t.Error("no error")
	}
}
