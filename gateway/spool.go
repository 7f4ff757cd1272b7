package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tokenfactory/factory"
)

const (
	segmentSuffix = ".usage"
	setAsideName  = "set-aside.jsonl"
	// segmentSize is when a segment is closed and a new one begun. segmentDone is the
	// size from which a segment that the ledger has wholly is deleted at once: what
	// is left is sent again after a crash, and taken in once.
	segmentSize = 4 << 20
	segmentDone = 128 << 10
	// memoryMost bounds rows that could not be written to disk.
	memoryMost = 10_000
)

// SpoolState is how usage stands that the ledger does not have yet.
type SpoolState struct {
	Waiting  int64     // rows on disk
	InMemory int       // rows that could not be written to disk
	Bytes    int64     // on disk
	Limit    int64     // of Bytes
	Full     bool      // requests are refused until the ledger takes rows again
	Lost     int64     // rows that neither disk nor memory could hold; they are in the log
	SetAside int64     // rows that the ledger will never take, kept in a file of their own
	Since    time.Time // when the ledger last took rows or had none to take
	Problem  string    // why nothing moves; empty when all is well
}

// SpoolState reports what waits for the ledger.
func (g *Gateway) SpoolState() SpoolState {
	if g.spool == nil {
		return SpoolState{}
	}
	return g.spool.state()
}

// spool keeps usage on disk, in the order in which it came, until the ledger has
// it. A row is one write to one file, made before its request's last byte is
// sent, so a killed process loses nothing that a client has seen the end of.
type spool struct {
	dir  string
	most int64
	log  *slog.Logger
	lock *os.File
	wake chan struct{}

	mu       sync.Mutex
	segments []*segment // oldest first; the last may be open
	open     *os.File   // of the last segment
	sequence int64
	bytes    int64
	waiting  int64
	recent   []recentRow // the newest rows of segments, oldest first
	memory   []factory.Usage
	broken   error // the disk takes no rows
	lost     int64
	setAside int64
	since    time.Time
	problem  string

	// written counts rows on disk, those of earlier processes first, and remembered rows
	// in memory; gone counts rows on disk that are dealt with, and offered those that the
	// ledger may have.
	written, remembered, gone, offered int64

	moving sync.Mutex // one drain at a time; guards what follows
	batch  batch
	taken  factory.Usage // a row that the ledger took
}

// segment is one file of rows.
type segment struct {
	path string
	size int64 // that is known to be whole
	read int64 // that the ledger has
	rows int64 // between the two
}

func openSpool(dir string, most int64, log *slog.Logger) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the spool's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the spool: %w", err)
	}
	// The kernel lets go of it when the process ends, however it ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses the spool in %s: %w", dir, err), lock.Close())
	}
	s := &spool{dir: dir, most: most, log: log, lock: lock, wake: make(chan struct{}, 1), since: time.Now()}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// recover takes over the files of an earlier process.
func (s *spool) recover() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read the spool: %w", err)
	}
	for _, e := range entries { // sorted by name, which is by age
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(name, "%d", &n); err != nil {
			continue
		}
		seg := &segment{path: filepath.Join(s.dir, e.Name())}
		rows, whole, torn, err := measure(seg.path)
		if err != nil {
			return fmt.Errorf("read spooled usage: %w", err)
		}
		if torn > 0 {
			// Its request never saw its last byte, so there is nothing to account for.
			s.log.Warn("the last row of a spool file was cut short when the process was killed", "file", e.Name(), "bytes", torn)
		}
		s.sequence = max(s.sequence, n)
		if rows == 0 {
			if err := os.Remove(seg.path); err != nil {
				return fmt.Errorf("remove an empty spool file: %w", err)
			}
			continue
		}
		seg.size, seg.rows = whole, rows
		s.segments = append(s.segments, seg)
		s.bytes += whole
		s.waiting += rows
	}
	s.written = s.waiting
	if s.waiting > 0 {
		s.log.Info("usage of an earlier process goes to the ledger", "rows", s.waiting)
		s.wake <- struct{}{}
	}
	s.setAside, _, _, err = measure(filepath.Join(s.dir, setAsideName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read usage that was set aside: %w", err)
	}
	return nil
}

// admits says whether a request may be served: whether its usage could be kept.
func (s *spool) admits() *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fullLocked() {
		p := unavailable("Usage cannot be recorded at the moment, so nothing is served. Try again in a few seconds.")
		p.code = "usage_spool_full"
		return p
	}
	return nil
}

func (s *spool) fullLocked() bool { return s.bytes >= s.most || len(s.memory) > 0 }

// append keeps a row and says where. When the disk does not take it, it stays in
// memory and new requests are refused until that is over.
func (s *spool) append(u factory.Usage) place {
	line, err := encodeRow(u)
	if err != nil {
		s.log.Error("a usage row cannot be written down", "request", u.ID, "err", err)
		return place{} // numbers and texts only: it cannot happen
	}
	s.mu.Lock()
	at := place{}
	err = s.writeLocked(line)
	if err == nil {
		s.keepRecentLocked(u, len(line))
		s.written++
		at.row = s.written
	} else {
		s.rememberLocked(u, err)
		s.remembered++
		at.memory = s.remembered
	}
	s.mu.Unlock()
	s.nudge()
	return at
}

func (s *spool) rememberLocked(u factory.Usage, err error) {
	if s.broken == nil {
		s.log.Error("usage cannot be written to disk; it is kept in memory and requests are refused", "err", err)
	}
	s.broken = err
	if len(s.memory) >= memoryMost {
		s.lost++
		s.log.Error("a usage row is lost", "request", u.ID, "tenant", u.TenantID, "key", u.KeyID, "deployment", u.DeploymentID,
			"prompt_tokens", u.PromptTokens, "cached_tokens", u.CachedTokens, "completion_tokens", u.CompletionTokens)
		return
	}
	s.memory = append(s.memory, u)
}

func (s *spool) writeLocked(line []byte) error {
	if s.open != nil && s.segments[len(s.segments)-1].size >= segmentSize {
		s.closeLocked()
	}
	if s.open == nil {
		s.sequence++
		path := filepath.Join(s.dir, fmt.Sprintf("%016d%s", s.sequence, segmentSuffix))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		s.open = f
		s.segments = append(s.segments, &segment{path: path})
	}
	seg := s.segments[len(s.segments)-1]
	if n, err := s.open.Write(line); err != nil {
		if n > 0 {
			// Half a row would swallow the next one.
			if cut := s.open.Truncate(seg.size); cut != nil {
				s.closeLocked()
			}
		}
		return err
	}
	s.broken = nil
	seg.size += int64(len(line))
	seg.rows++
	s.bytes += int64(len(line))
	s.waiting++
	return nil
}

// closeLocked ends the open segment; what is in it stays.
func (s *spool) closeLocked() {
	if s.open == nil {
		return
	}
	if err := s.open.Close(); err != nil {
		s.log.Warn("close a spool file", "err", err)
	}
	s.open = nil
}

func (s *spool) state() SpoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SpoolState{Waiting: s.waiting, InMemory: len(s.memory), Bytes: s.bytes, Limit: s.most, Full: s.fullLocked(),
		Lost: s.lost, SetAside: s.setAside, Since: s.since, Problem: s.problem}
	if s.broken != nil && len(s.memory) > 0 {
		st.Problem = "The disk takes no usage rows: " + s.broken.Error()
	}
	return st
}

// close lets go of the files; rows that wait stay for the next process.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked()
	var err error
	// What could not be written before may fit now.
	s.memory = slices.DeleteFunc(s.memory, func(u factory.Usage) bool {
		line, failed := encodeRow(u)
		if failed == nil {
			failed = s.writeLocked(line)
		}
		err = errors.Join(err, failed)
		return failed == nil
	})
	s.closeLocked()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}
