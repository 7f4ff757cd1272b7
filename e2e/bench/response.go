//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// response reads one HTTP/1.1 answer from whatever pieces it arrives in. It keeps
// nothing but what is not whole yet.
type response struct {
	status  int
	head    []byte
	inBody  bool
	chunked bool
	left    int // of the body, or of the chunk
	size    []byte
	state   chunkState
	done    bool
}

type chunkState int

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd  // the line end after data
	chunkLast // the line end after the last chunk
)

var errNotHTTP = errors.New("the answer is not HTTP as this program understands it")

func (r *response) reset() {
	*r = response{head: r.head[:0], size: r.size[:0]}
}

// feed takes the next piece and hands the body's bytes on.
func (r *response) feed(b []byte, body func([]byte)) error {
	if !r.inBody {
		before := len(r.head)
		r.head = append(r.head, b...)
		i := bytes.Index(r.head[max(0, before-3):], []byte("\r\n\r\n"))
		if i < 0 {
			return nil
		}
		end := max(0, before-3) + i + 4
		b = b[end-before:]
		if err := r.readHead(r.head[:end-2]); err != nil {
			return err
		}
		if r.status >= 100 && r.status < 200 {
			r.reset()
			return r.feed(b, body)
		}
		r.inBody = true
		r.done = !r.chunked && r.left == 0
	}
	if !r.chunked {
		n := min(r.left, len(b))
		if n > 0 {
			body(b[:n])
		}
		r.left -= n
		r.done = r.left == 0
		if len(b) > n {
			return errNotHTTP
		}
		return nil
	}
	return r.dechunk(b, body)
}

func (r *response) readHead(head []byte) error {
	first, rest, _ := bytes.Cut(head, []byte("\r\n"))
	if len(first) < 12 || !bytes.HasPrefix(first, []byte("HTTP/1.1 ")) {
		return errNotHTTP
	}
	r.status, _ = strconv.Atoi(string(first[9:12]))
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch len(name) {
		case len("Content-Length"):
			if strings.EqualFold(string(name), "Content-Length") {
				n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
				if err != nil {
					return errNotHTTP
				}
				r.left = n
			}
		case len("Transfer-Encoding"):
			if strings.EqualFold(string(name), "Transfer-Encoding") {
				r.chunked = true
			}
		}
	}
	return nil
}

func (r *response) dechunk(b []byte, body func([]byte)) error {
	for len(b) > 0 {
		if r.done {
			return errNotHTTP
		}
		switch r.state {
		case chunkData:
			n := min(r.left, len(b))
			body(b[:n])
			b = b[n:]
			if r.left -= n; r.left == 0 {
				r.state = chunkEnd
			}
			continue
		default:
			line, rest, ok := bytes.Cut(b, []byte("\n"))
			r.size = append(r.size, line...)
			b = rest
			if !ok {
				return nil
			}
		}
		line := bytes.TrimSuffix(r.size, []byte("\r"))
		switch r.state {
		case chunkEnd:
			r.state = chunkSize
		case chunkLast:
			r.done = len(line) == 0
		case chunkSize:
			n, err := strconv.ParseInt(string(line), 16, 32)
			if err != nil {
				return fmt.Errorf("%w: chunk size %q", errNotHTTP, line)
			}
			r.left, r.state = int(n), chunkData
			if n == 0 {
				r.state = chunkLast
			}
		}
		r.size = r.size[:0]
	}
	return nil
}
