package metrics

import "time"

// Piece is a part of a range that buckets of one resolution fill exactly.
type Piece struct {
	From, To time.Time
	Step     time.Duration
}

// Cover cuts a range into few pieces, each as coarse as fits: whole hours, then the
// minutes at both ends, then the tens of seconds. It reads a long range for a
// summary with a fraction of the rows that its finest resolution has. Fine pieces of
// an old range may have been forgotten; then less than one coarse step is missing.
func Cover(from, to time.Time) []Piece {
	finest := Resolutions[0].Step
	return cover(from.UTC().Truncate(finest), to.UTC().Truncate(finest), len(Resolutions)-1)
}

func cover(from, to time.Time, level int) []Piece {
	if level < 0 || !from.Before(to) {
		return nil
	}
	step := Resolutions[level].Step
	first, last := from.Truncate(step), to.Truncate(step)
	if first.Before(from) {
		first = first.Add(step)
	}
	if !first.Before(last) {
		return cover(from, to, level-1)
	}
	out := cover(from, first, level-1)
	out = append(out, Piece{first, last, step})
	return append(out, cover(last, to, level-1)...)
}
