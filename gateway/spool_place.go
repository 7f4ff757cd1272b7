package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// place is where a row stands among all rows of a spool. Rows in memory are counted
// apart, because they go to the ledger before rows that came earlier and are on disk.
type place struct {
	row    int64 // on disk, from 1 on
	memory int64 // or in memory, from 1 on
}

// within reports whether a row is among those up to a place.
func (p place) within(done place) bool {
	if p.memory > 0 {
		return p.memory <= done.memory
	}
	return p.row <= done.row
}

// last is the place of the newest rows.
func (s *spool) last() place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return place{row: s.written, memory: s.remembered}
}

// mark notes that the next n rows on disk are offered to the ledger: whatever it
// answers, it may have them.
func (s *spool) mark(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered = max(s.offered, s.gone+n)
}

// still calls read while no row moves to the ledger, with the place up to which the
// ledger has all rows, and has none beyond. It does not when that place is before
// since, or when the ledger may have rows of which nobody knows: then the drain has
// to go on first.
func (s *spool) still(since place, read func(done place)) bool {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	done := place{row: s.gone, memory: s.remembered}
	clear := s.batch.lines == 0 && s.offered <= s.gone && len(s.memory) == 0 && since.row <= s.gone
	s.mu.Unlock()
	if clear {
		read(done)
	}
	return clear
}

// nudge makes the drain look for rows now.
func (s *spool) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// asideRows are the rows that were set aside and can still be read.
func (s *spool) asideRows() ([]factory.Usage, error) {
	s.mu.Lock()
	n := s.setAside
	s.mu.Unlock()
	if n == 0 {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(s.dir, setAsideName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // an operator has dealt with them
	}
	if err != nil {
		return nil, fmt.Errorf("read usage that was set aside: %w", err)
	}
	defer f.Close()
	var rows []factory.Usage
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return rows, nil // what has no end was being written when the process was killed
		}
		if err != nil {
			return nil, fmt.Errorf("read usage that was set aside: %w", err)
		}
		if u, err := decodeRow([]byte(gjson.GetBytes(line, "line").Str)); err == nil {
			rows = append(rows, u)
		}
	}
}
