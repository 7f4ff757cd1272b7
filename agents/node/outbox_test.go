package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tokenfactory/metrics"
)

func counted(start time.Time, n float64) []metrics.Bucket {
	return []metrics.Bucket{{DeploymentID: "d", ReplicaID: "r", Name: metrics.GenerationTokens, Step: 10 * time.Second,
		Start: start.Truncate(10 * time.Second), Count: 1, Sum: n, Max: n}}
}

func testOutbox(t *testing.T, dir string) outbox {
	t.Helper()
	o, err := openOutbox(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBatchesStayOnDiskUntilTheServerHasThem(t *testing.T) {
	dir := t.TempDir()
	o := testOutbox(t, dir)
	if err := o.acknowledged(41); err != nil { // where the server is
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 3 {
		if err := o.put(counted(now, float64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	o = testOutbox(t, dir) // the agent was killed and started again
	batches, err := o.oldest()
	if err != nil || len(batches) != 3 || batches[0].Seq != 42 || batches[2].Seq != 44 || batches[2].Buckets[0].Sum != 3 {
		t.Fatalf("%v %+v", err, batches)
	}
	if err := o.acknowledged(43); err != nil {
		t.Fatal(err)
	}
	if batches, _ = o.oldest(); len(batches) != 1 || batches[0].Seq != 44 {
		t.Fatalf("%+v", batches)
	}
	if err := o.put(counted(now, 9)); err != nil {
		t.Fatal(err)
	}
	o = testOutbox(t, dir)
	if batches, _ = o.oldest(); len(batches) != 2 || batches[1].Seq != 45 {
		t.Errorf("numbers do not go on: %+v", batches)
	}
}

// However long the server is away, the sum of what was counted is kept, coarser.
func TestOldBatchesBecomeOneWithoutLosingCounts(t *testing.T) {
	dir := t.TempDir()
	o := testOutbox(t, dir)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	const n = mostBatches + 1
	for i := range n {
		if err := o.put(counted(start.Add(time.Duration(i)*5*time.Second), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.kept) != n-rollUp+1 {
		t.Errorf("%d batches are kept", len(o.kept))
	}
	// What a report has carried keeps its own number, should the answer have been lost.
	if b, err := o.read(perReport); err != nil || len(b.Buckets) != 1 {
		t.Errorf("batch %d was changed: %v %+v", perReport, err, b)
	}
	sum := 0.0
	for _, f := range o.kept {
		b, err := o.read(f.seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range b.Buckets {
			sum += x.Sum
		}
	}
	if sum != n {
		t.Errorf("the counts add up to %v, want %v", sum, n)
	}
}

func TestARollUpKeepsHistogramsAndMachinesApart(t *testing.T) {
	o := testOutbox(t, t.TempDir())
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var r metrics.Recorder
	for i, node := range []string{"n", "n", "rejoined"} {
		now := at.Add(time.Duration(i) * 10 * time.Second)
		r.ObserveHistogram(now, metrics.Of{Deployment: "d", Replica: "r"}, metrics.EngineTTFT,
			metrics.Histogram{Bounds: []float64{300, 500}, Counts: []float64{1, 2}, Sum: 700, Count: 3})
		r.Observe(now, node, "GPU-a", metrics.GPUTemperature, 60, 1)
		if err := o.put(r.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.rollUp(o.kept); err != nil {
		t.Fatal(err)
	}
	batches, err := o.oldest()
	if err != nil || len(batches) != 1 || len(batches[0].Buckets) != 3 {
		t.Fatalf("%v %+v", err, batches)
	}
	for _, b := range batches[0].Buckets {
		if err := b.Check(); err != nil || b.Step != time.Minute {
			t.Errorf("%+v, %v", b, err)
		}
		if b.Name != metrics.EngineTTFT {
			continue
		}
		if h, err := metrics.DecodeHistogram(b.Sketch); err != nil || h.Count != 9 || h.Sum != 2100 || h.Counts[0] != 3 {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

// An agent that is killed between writing a roll-up and removing what is in it
// finishes when it starts again.
func TestAnInterruptedRollUpIsFinishedOnce(t *testing.T) {
	dir := t.TempDir()
	o := testOutbox(t, dir)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 4 {
		if err := o.put(counted(start.Add(time.Duration(i)*5*time.Second), 1)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(o.path(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.rollUpPath(1, 2), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	o = testOutbox(t, dir)
	if len(o.kept) != 3 || o.kept[0].seq != 2 {
		t.Errorf("kept %+v, want 2, 3 and 4", o.kept)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "outbox", "*"+rollUpSuffix)); len(left) > 0 {
		t.Errorf("%v is still there", left)
	}
}

func TestADamagedBatchDoesNotHoldUpTheOthers(t *testing.T) {
	o := testOutbox(t, t.TempDir())
	for range 2 {
		if err := o.put(counted(time.Now(), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.path(1), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	batches, err := o.oldest()
	if err != nil || len(batches) != 1 || batches[0].Seq != 2 {
		t.Errorf("%v %+v", err, batches)
	}
}
