package gateway

import "tokenfactory/factory"

// recentMost bounds the rows that are kept in memory beside the disk. What is above
// is read back when its turn comes, as after a restart.
const recentMost = 4096

// recentRow is a row that is on disk, and where. A ledger that keeps up gets rows
// from here: reading back what was written 50 ms ago would cost as much as writing it.
type recentRow struct {
	seg      *segment
	from, to int64
	factory.Usage
}

// keepRecentLocked remembers the row that was just written to the open segment.
func (s *spool) keepRecentLocked(u factory.Usage, size int) {
	if len(s.recent) < recentMost {
		seg := s.segments[len(s.segments)-1]
		s.recent = append(s.recent, recentRow{seg, seg.size - int64(size), seg.size, u})
	}
}

// recentBatchLocked takes the next rows of a segment from memory, if they are there.
func (s *spool) recentBatchLocked(seg *segment) (batch, bool) {
	first := 0
	for first < len(s.recent) && s.recent[first].from < s.recent[first].seg.read {
		first++ // was read from disk
	}
	b := batch{from: seg, upTo: seg.read}
	next := first
	for next < len(s.recent) && len(b.rows) < batchMost && s.recent[next].seg == seg && s.recent[next].from == b.upTo {
		b.rows = append(b.rows, s.recent[next].Usage)
		b.upTo = s.recent[next].to
		b.lines++
		next++
	}
	s.dropRecentLocked(next)
	return b, b.lines > 0
}

func (s *spool) dropRecentLocked(n int) {
	rest := copy(s.recent, s.recent[n:])
	clear(s.recent[rest:])
	s.recent = s.recent[:rest]
}
