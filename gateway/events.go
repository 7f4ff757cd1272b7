package gateway

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// Sizes of the event reader's buffer. A large event makes it grow, and it
// shrinks again afterwards: thousands of streams are open at a time.
const (
	smallEvents = 4 << 10
	keepEvents  = 64 << 10
	// maxEvent is more than any engine sends in one event; above it something is wrong.
	maxEvent = 64 << 20
)

var errEventTooLong = errors.New("an event of the engine is longer than 64 MiB")

// event is one event of a stream. Its slices hold until the reader is filled again.
type event struct {
	raw  []byte // as it came, with the empty line that ends it
	data []byte // of all data lines, joined; nil when there are none
	// dataAt is where data lies within raw; -1 when it was joined from several lines.
	dataAt  int
	name    []byte // of the event line
	comment []byte // of the first comment line
	failure []byte // of an error line, which old llama.cpp servers write
}

// eventReader cuts a stream into events, whatever the reads it arrives in. It
// accepts LF and CR LF, data with and without a space, and lines of any length up
// to maxEvent.
type eventReader struct {
	src        io.Reader
	err        error
	buf        []byte
	from, to   int // what is in buf
	line, seek int // start of the unfinished line, and how far it was searched
	ev         event
	dataAt     int // absolute, of the first data line
	dataTo     int
	lines      int // data lines of the event so far
	joined     []byte
}

var smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallEvents); return &b }}

func newEventReader(src io.Reader) *eventReader {
	return &eventReader{src: src, buf: *smallBuffers.Get().(*[]byte)}
}

// free gives the buffer back; the reader cannot be used afterwards.
func (r *eventReader) free() {
	if cap(r.buf) == smallEvents {
		b := r.buf[:smallEvents]
		smallBuffers.Put(&b)
	}
	r.buf = nil
}

// next returns the next event that is whole in the buffer.
func (r *eventReader) next() (*event, bool) {
	for {
		i := bytes.IndexByte(r.buf[r.seek:r.to], '\n')
		if i < 0 {
			r.seek = r.to
			return nil, false
		}
		end := r.seek + i
		last := r.takeLine(end)
		r.line, r.seek = end+1, end+1
		if last {
			return r.finish(end + 1), true
		}
	}
}

// rest returns what is left at the end of the stream as an event, although no
// empty line ended it.
func (r *eventReader) rest() (*event, bool) {
	if r.from == r.to {
		return nil, false
	}
	if r.line < r.to {
		r.takeLine(r.to)
	}
	return r.finish(r.to), true
}

// takeLine reads the line that ends before end, and reports whether it was empty.
func (r *eventReader) takeLine(end int) bool {
	start := r.line
	if start == r.from {
		r.ev.reset()
	}
	if end > start && r.buf[end-1] == '\r' {
		end--
	}
	line := r.buf[start:end]
	if len(line) == 0 {
		return true
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	at := min(start+len(name)+1, end)
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
		at++
	}
	switch string(name) {
	case "data":
		r.takeData(at, value)
	case "event":
		r.ev.name = append(r.ev.name[:0], value...)
	case "error":
		r.ev.failure = append(r.ev.failure[:0], value...)
	case "":
		if len(r.ev.comment) == 0 {
			r.ev.comment = append(r.ev.comment[:0], value...)
		}
	}
	return false
}

func (r *eventReader) takeData(at int, value []byte) {
	// TensorRT-LLM writes a space before the line end.
	value = bytes.TrimRight(value, " \t")
	r.lines++
	if r.lines == 1 {
		r.dataAt, r.dataTo = at, at+len(value)
		return
	}
	if r.lines == 2 {
		r.joined = append(r.joined[:0], r.buf[r.dataAt:r.dataTo]...)
	}
	r.joined = append(append(r.joined, '\n'), value...)
}

func (r *eventReader) finish(end int) *event {
	ev := &r.ev
	ev.raw, ev.data, ev.dataAt = r.buf[r.from:end], nil, -1
	switch {
	case r.lines == 1:
		ev.data, ev.dataAt = r.buf[r.dataAt:r.dataTo], r.dataAt-r.from
	case r.lines > 1:
		ev.data = r.joined
	}
	r.from, r.line, r.seek, r.lines = end, end, end, 0
	return ev
}

// reset forgets an event that was handed out.
func (ev *event) reset() {
	ev.name, ev.comment, ev.failure = ev.name[:0], ev.comment[:0], ev.failure[:0]
}

// fill reads once from the source. Events handed out before are gone afterwards.
func (r *eventReader) fill() error {
	if r.from == r.to {
		r.move(r.buf)
		if cap(r.buf) > keepEvents {
			r.buf = *smallBuffers.Get().(*[]byte)
		}
	}
	if r.to == len(r.buf) {
		switch size := r.to - r.from; {
		case size >= maxEvent:
			return errEventTooLong
		case size > len(r.buf)/2:
			r.move(make([]byte, 2*len(r.buf)))
		default:
			r.move(r.buf)
		}
	}
	if r.err != nil {
		return r.err
	}
	var n int
	n, r.err = r.src.Read(r.buf[r.to:])
	r.to += n
	if n > 0 {
		return nil // what came with an error is looked at first
	}
	return r.err
}

// move puts the unfinished event at the start of a buffer.
func (r *eventReader) move(into []byte) {
	copy(into, r.buf[r.from:r.to])
	r.buf = into
	shift := r.from
	r.to, r.line, r.seek, r.from = r.to-shift, r.line-shift, r.seek-shift, 0
	r.dataAt, r.dataTo = r.dataAt-shift, r.dataTo-shift
}
