package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/agents"
	"tokenfactory/metrics"
)

// Bounds of what is kept while the server is away: at one batch in five seconds,
// over an hour in full, and far more by the minute.
const (
	mostBatches = 1000
	rollUp      = 500 // oldest batches that become one, by the minute
	mostBytes   = 64 << 20
	// What one report carries; the intake takes a few times as much.
	perReport      = 100
	bytesPerReport = 1 << 20
)

// outbox keeps numbered measurements on disk until the server has them.
type outbox struct {
	dir string
	log *slog.Logger
	// numbered is set once the server's number is known, so that none is used twice.
	numbered bool
	seq      int64
	kept     []filed // by number
	bytes    int64
	dropped  int
}

type filed struct {
	seq  int64
	size int64
}

const (
	batchSuffix  = ".batch.json"
	rollUpSuffix = ".rollup"
)

func openOutbox(dir string, log *slog.Logger) (outbox, error) {
	o := outbox{dir: filepath.Join(dir, "outbox"), log: log}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return o, fmt.Errorf("make the outbox: %w", err)
	}
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return o, fmt.Errorf("read the outbox: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), batchSuffix)
		seq, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return o, err
		}
		o.keep(filed{seq, info.Size()})
	}
	for _, e := range entries {
		var first, last int64
		name, ok := strings.CutSuffix(e.Name(), rollUpSuffix)
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(name, "%d-%d", &first, &last); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return o, err
		}
		if err := o.finishRollUp(first, last, info.Size()); err != nil {
			return o, fmt.Errorf("finish a roll-up: %w", err)
		}
	}
	return o, nil
}

func (o *outbox) path(seq int64) string {
	return filepath.Join(o.dir, fmt.Sprintf("%016d%s", seq, batchSuffix))
}

// put numbers measurements and writes them down.
func (o *outbox) put(buckets []metrics.Bucket) error {
	if len(buckets) == 0 {
		return nil
	}
	if err := o.write(agents.Batch{Seq: o.seq + 1, Buckets: buckets}); err != nil {
		return err
	}
	return o.shrink()
}

func (o *outbox) write(b agents.Batch) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := replaceFile(o.path(b.Seq), text); err != nil {
		return err
	}
	o.keep(filed{b.Seq, int64(len(text))})
	return nil
}

// oldest are the batches that the next report carries. A file that cannot be
// read is set aside: it must not hold up all that follow.
func (o *outbox) oldest() ([]agents.Batch, error) {
	var out []agents.Batch
	size := int64(0)
	for _, f := range slices.Clone(o.kept[:min(len(o.kept), perReport)]) {
		if size += f.size; size > bytesPerReport && len(out) > 0 {
			break
		}
		b, err := o.read(f.seq)
		if err != nil {
			o.log.Error("a batch of measurements is damaged and left out", "seq", f.seq, "err", err)
			if err := o.remove(f); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, b)
	}
	return out, nil
}

func (o *outbox) read(seq int64) (agents.Batch, error) {
	var b agents.Batch
	text, err := os.ReadFile(o.path(seq))
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(text, &b)
}

// acknowledged forgets what the server has, and continues its numbers.
func (o *outbox) acknowledged(seq int64) error {
	for len(o.kept) > 0 && o.kept[0].seq <= seq {
		if err := o.remove(o.kept[0]); err != nil {
			return err
		}
	}
	o.seq = max(o.seq, seq)
	o.numbered = true
	return nil
}

func (o *outbox) remove(f filed) error {
	if err := os.Remove(o.path(f.seq)); err != nil && !os.IsNotExist(err) {
		return err
	}
	o.kept = slices.DeleteFunc(o.kept, func(k filed) bool { return k.seq == f.seq })
	o.bytes -= f.size
	return nil
}

// shrink keeps the outbox within its bounds: the oldest become one batch by the
// minute, and when that is not enough the oldest go.
func (o *outbox) shrink() error {
	if len(o.kept) > mostBatches {
		// The first ones may have been sent, with the answer lost on the way: the
		// server knows them by their own numbers.
		if err := o.rollUp(slices.Clone(o.kept[perReport : perReport+rollUp])); err != nil {
			return err
		}
	}
	for o.bytes > mostBytes && len(o.kept) > 1 {
		o.dropped++
		if err := o.remove(o.kept[0]); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) rollUp(old []filed) error {
	at := map[metrics.Place]int{}
	var merged []metrics.Bucket
	for _, f := range old {
		b, err := o.read(f.seq)
		if err != nil {
			continue // reported when its turn to be sent comes
		}
		for _, fine := range b.Buckets {
			c := fine.At(max(fine.Step, time.Minute))
			p := c.Place()
			i, seen := at[p]
			if !seen {
				at[p] = len(merged)
				merged = append(merged, c)
				continue
			}
			if err := merged[i].Merge(c); err != nil {
				return err
			}
		}
	}
	// The whole takes the newest of the numbers. It is written down under another
	// name first: an agent that is killed here finishes when it starts again, with
	// nothing missing and nothing twice.
	first, last := old[0].seq, old[len(old)-1].seq
	text, err := json.Marshal(agents.Batch{Seq: last, Buckets: merged})
	if err != nil {
		return err
	}
	if err := replaceFile(o.rollUpPath(first, last), text); err != nil {
		return err
	}
	return o.finishRollUp(first, last, int64(len(text)))
}

func (o *outbox) rollUpPath(first, last int64) string {
	return filepath.Join(o.dir, fmt.Sprintf("%d-%d%s", first, last, rollUpSuffix))
}

// finishRollUp puts a roll-up in the place of all that is in it.
func (o *outbox) finishRollUp(first, last, size int64) error {
	for _, f := range slices.Clone(o.kept) {
		if f.seq < first || f.seq > last {
			continue
		}
		if err := o.remove(f); err != nil {
			return err
		}
	}
	if err := os.Rename(o.rollUpPath(first, last), o.path(last)); err != nil {
		return err
	}
	o.keep(filed{last, size})
	return nil
}

func (o *outbox) keep(f filed) {
	o.kept = append(o.kept, f)
	slices.SortFunc(o.kept, func(a, b filed) int { return int(a.seq - b.seq) })
	o.bytes += f.size
	o.seq = max(o.seq, f.seq)
}

// warning tells operators when measurements were given up.
func (o *outbox) warning() string {
	if o.dropped == 0 {
		return ""
	}
	return fmt.Sprintf("While the server could not be reached, %d of the oldest batches of measurements were dropped to stay within %d MB of disk.", o.dropped, mostBytes>>20)
}
