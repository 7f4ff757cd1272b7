package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"tokenfactory/factory"
)

const (
	// gather is how long rows wait for others to share a transaction with.
	gather      = 50 * time.Millisecond
	ledgerPause = 200 * time.Millisecond
	ledgerRest  = 5 * time.Second
	// ledgerPatience bounds one transaction.
	ledgerPatience = 10 * time.Second
	// strikesOut is how often a row alone is refused, while others are taken, before
	// it is set aside. It must not be a passing condition.
	strikesOut = 5
	// triesApart bounds how many parts of a failing batch are tried on their own.
	triesApart = 48
)

// run moves rows to the ledger until ctx ends.
func (s *spool) run(ctx context.Context, ledger Ledger) {
	pause := time.Duration(0)
	for {
		if pause == 0 {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
				pause = gather
			}
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		before := pause
		if pause = 0; s.drain(ctx, ledger) != nil {
			pause = min(max(2*before, ledgerPause), ledgerRest)
			pause += rand.N(pause / 4)
		}
	}
}

// drain moves everything that waits to the ledger, or as much as it takes. Between
// two batches others get a turn.
func (s *spool) drain(ctx context.Context, ledger Ledger) error {
	for {
		s.moving.Lock()
		more, err := s.step(ctx, ledger)
		s.moving.Unlock()
		if err != nil {
			s.mu.Lock()
			s.problem = "The ledger takes no usage rows; they wait on disk."
			waiting := s.waiting + int64(len(s.memory))
			s.mu.Unlock()
			if ctx.Err() == nil {
				s.log.Warn("usage waits for the ledger", "rows", waiting, "err", err)
			}
			return fmt.Errorf("%d usage rows wait for the ledger: %w", waiting, err)
		}
		if !more {
			s.mu.Lock()
			s.problem, s.since = "", time.Now()
			s.mu.Unlock()
			return nil
		}
	}
}

// step deals with one batch. The batch stays until it is wholly dealt with, so
// that a part which was taken is not forgotten.
func (s *spool) step(ctx context.Context, ledger Ledger) (more bool, err error) {
	b := &s.batch
	if len(b.rows) == 0 && len(b.damaged) == 0 {
		if *b, err = s.nextBatch(); err != nil || b.lines == 0 {
			return false, err
		}
		if b.from != nil {
			s.mark(b.lines)
		}
	}
	for len(b.damaged) > 0 {
		if err := s.putAside(b.damaged[0], "the row is damaged on disk"); err != nil {
			return false, err
		}
		b.damaged = b.damaged[1:]
	}
	if err := s.deliver(ctx, ledger, b); err != nil {
		return false, err
	}
	return true, s.settleBatch(b)
}

func (s *spool) nextBatch() (batch, error) {
	s.mu.Lock()
	if n := min(len(s.memory), batchMost); n > 0 {
		b := batch{rows: append([]factory.Usage(nil), s.memory[:n]...), lines: int64(n)}
		s.mu.Unlock()
		return b, nil
	}
	var seg *segment
	var size int64
	for _, c := range s.segments {
		if c.read < c.size {
			seg, size = c, c.size
			break
		}
	}
	if seg == nil {
		s.mu.Unlock()
		return batch{}, nil
	}
	if b, ok := s.recentBatchLocked(seg); ok {
		s.mu.Unlock()
		return b, nil
	}
	s.mu.Unlock()
	b, err := readBatch(seg, size)
	if errors.Is(err, os.ErrNotExist) {
		s.forget(seg)
		return s.nextBatch()
	}
	return b, err
}

// forget gives up a file that somebody has deleted: what was in it is lost, and
// that is said, but it must not hold up what is not.
func (s *spool) forget(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Error("a spool file is gone; its usage rows are lost", "file", seg.path, "rows", seg.rows)
	if seg == s.segments[len(s.segments)-1] {
		s.closeLocked()
	}
	s.segments = slices.DeleteFunc(s.segments, func(c *segment) bool { return c == seg })
	s.recent = slices.DeleteFunc(s.recent, func(r recentRow) bool { return r.seg == seg })
	s.bytes -= seg.size
	s.waiting -= seg.rows
	s.lost += seg.rows
	s.gone += seg.rows
	s.offered = max(s.offered, s.gone)
}

// settleBatch forgets a batch that the ledger has, and files that are done.
func (s *spool) settleBatch(b *batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { *b = batch{} }()
	if b.from == nil {
		s.memory = append(s.memory[:0], s.memory[b.lines:]...)
		return nil
	}
	b.from.read = b.upTo
	b.from.rows -= b.lines
	s.waiting -= b.lines
	s.gone += b.lines
	first := s.segments[0]
	if first.read < first.size {
		return nil
	}
	if len(s.segments) == 1 && s.open != nil {
		if first.size < segmentDone && s.bytes < s.most/2 {
			return nil
		}
		s.closeLocked()
	}
	s.segments = s.segments[1:]
	s.bytes -= first.size
	if err := os.Remove(first.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		// Sent again after a restart, and known to the ledger then.
		s.log.Warn("remove a spool file that is done", "err", err)
	}
	return nil
}

// deliver gives a batch's rows to the ledger; those that are dealt with are gone
// from it. A row that can never be taken must not hold up all others.
func (s *spool) deliver(ctx context.Context, ledger Ledger, b *batch) error {
	if len(b.rows) == 0 {
		return nil
	}
	err := s.offer(ctx, ledger, b.rows)
	if err == nil {
		s.taken = b.rows[len(b.rows)-1]
		b.rows = nil
		return nil
	}
	if b.fails++; factory.KindOf(err) != factory.Invalid && b.fails < 3 {
		return err
	}
	tries := triesApart
	var kept []factory.Usage
	alone := map[string]bool{}
	taken := 0
	var last error
	s.apart(ctx, ledger, b.rows, err, &tries, func(rows []factory.Usage, err error) {
		switch {
		case err == nil:
			taken += len(rows)
			s.taken = rows[len(rows)-1]
			return
		case len(rows) == 1 && factory.KindOf(err) == factory.Invalid && s.putAsideRow(rows[0], err) == nil:
			return
		case len(rows) == 1:
			alone[rows[0].ID] = true
		}
		kept = append(kept, rows...)
		last = err
	})
	b.rows = kept
	if len(kept) == 0 {
		return nil
	}
	if taken > 0 || s.ledgerWorks(ctx, ledger, b) {
		// So it is these rows. A few more chances, then they step aside.
		if taken > 0 {
			b.fails = 0
		}
		if err := s.strike(b, alone); err != nil {
			return err
		}
		if len(b.rows) == 0 {
			return nil
		}
	} else {
		// Others come to the front, in case the first ones are the trouble.
		half := len(kept) / 2
		b.rows = append(append([]factory.Usage(nil), kept[half:]...), kept[:half]...)
	}
	return last
}

// apart offers a refused batch in halves, down to single rows, and tells the fate
// of each part. Parts that are not tried any more share the last error.
func (s *spool) apart(ctx context.Context, ledger Ledger, rows []factory.Usage, err error, tries *int, fate func([]factory.Usage, error)) {
	if err == nil || len(rows) == 1 || *tries <= 0 || ctx.Err() != nil {
		fate(rows, err)
		return
	}
	half := len(rows) / 2
	for _, part := range [][]factory.Usage{rows[:half], rows[half:]} {
		*tries--
		s.apart(ctx, ledger, part, s.offer(ctx, ledger, part), tries, fate)
	}
}

func (s *spool) offer(ctx context.Context, ledger Ledger, rows []factory.Usage) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerPatience)
	defer cancel()
	return ledger.AppendUsage(ctx, rows)
}

// ledgerWorks asks with a row that is no trouble: the last one that was taken, which
// the ledger knows already, or the next one in line.
func (s *spool) ledgerWorks(ctx context.Context, ledger Ledger, b *batch) bool {
	row := s.taken
	if row.ID == "" && b.from != nil {
		s.mu.Lock()
		size := b.from.size
		s.mu.Unlock()
		if b.upTo >= size {
			return false
		}
		next, err := readBatch(&segment{path: b.from.path, read: b.upTo}, size)
		if err != nil || len(next.rows) == 0 {
			return false
		}
		row = next.rows[0]
		s.mark(b.lines + next.lines)
	}
	return row.ID != "" && s.offer(ctx, ledger, []factory.Usage{row}) == nil
}

// strike counts rows that were refused alone while others were taken.
func (s *spool) strike(b *batch, alone map[string]bool) error {
	if b.strikes == nil {
		b.strikes = map[string]int{}
	}
	kept := b.rows[:0]
	for _, u := range b.rows {
		if alone[u.ID] {
			b.strikes[u.ID]++
		}
		if b.strikes[u.ID] < strikesOut {
			kept = append(kept, u)
			continue
		}
		if err := s.putAsideRow(u, errors.New("the ledger refuses it while it takes others")); err != nil {
			return err
		}
	}
	b.rows = kept
	return nil
}
