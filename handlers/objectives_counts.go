package handlers

import (
	"context"
	"slices"
	"sync"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/store"
)

// counted is how requests were judged, by deployment.
type counted map[string]slo.Counts

func (c counted) add(judged map[string]store.Judged) {
	for id, j := range judged {
		c[id] = c[id].Plus(slo.Counts(j))
	}
}

// lively is for how long measurements may still come in late.
const lively = 24 * time.Hour

// monthCounts counts an objective's window in whole hours, so that the one in which it
// begins is all in it. With many deployments nearly all of the work is in days that are
// over: those are read once an hour.
func (h *Objectives) monthCounts(ctx context.Context, now time.Time) (counted, error) {
	now = now.UTC()
	cut := now.Add(-lively).Truncate(time.Hour)
	past, err := h.past.read(ctx, h.Store, metrics.Piece{From: now.Add(-factory.ObjectiveWindow).Truncate(time.Hour), To: cut, Step: time.Hour})
	if err != nil {
		return nil, err
	}
	recent, err := h.Store.JudgedIn(ctx, []metrics.Piece{{From: cut, To: now.Add(time.Hour), Step: time.Hour}})
	if err != nil {
		return nil, err
	}
	sum := counted{}
	sum.add(past)
	sum.add(recent[0])
	return sum, nil
}

// pastCounts keeps what was read of days that are over.
type pastCounts struct {
	mu     sync.Mutex
	piece  metrics.Piece
	judged map[string]store.Judged
}

// read waits for whoever is reading the same already.
func (p *pastCounts) read(ctx context.Context, s *store.Store, piece metrics.Piece) (map[string]store.Judged, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.piece != piece {
		judged, err := s.JudgedIn(ctx, []metrics.Piece{piece})
		if err != nil {
			return nil, err
		}
		p.piece, p.judged = piece, judged[0]
	}
	return p.judged, nil
}

// burnCounts counts every window that a rule looks at, by the window's length. Each window
// is a longer one's end, so that what lies between two beginnings is read once and
// counts in all that are longer.
func burnCounts(ctx context.Context, s *store.Store, now time.Time, ids ...string) (map[time.Duration]counted, error) {
	lengths := burnLengths()
	var pieces []metrics.Piece
	var of []time.Duration // the shortest window that a piece is in
	end := now
	for _, length := range lengths {
		begin := slo.Edge(now, length)
		for _, p := range metrics.Cover(begin, end) {
			pieces, of = append(pieces, p), append(of, length)
		}
		end = begin
	}
	judged, err := s.JudgedIn(ctx, pieces, ids...)
	if err != nil {
		return nil, err
	}
	out := map[time.Duration]counted{}
	for _, length := range lengths {
		out[length] = counted{}
		for i, j := range judged {
			if of[i] <= length {
				out[length].add(j)
			}
		}
	}
	return out, nil
}

// burnLengths are the lengths of all windows, the shortest first.
func burnLengths() []time.Duration {
	var out []time.Duration
	for _, w := range slo.Windows {
		out = append(out, w.Long, w.Short)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
