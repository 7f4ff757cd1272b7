package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"

	"tokenfactory/factory"
)

// readSize is how much of a segment is read at once; a row is a few hundred bytes.
const readSize = 512 << 10

// A row is one line: eight hexadecimal digits of a checksum, a space, and JSON. The
// line's end says that it was written whole, the checksum that it still is.
func encodeRow(u factory.Usage) ([]byte, error) {
	const digits = 8
	line := append(make([]byte, 0, 640), "00000000 "...)
	line, err := appendUsage(line, &u)
	if err != nil {
		return nil, err
	}
	sum := crc32.ChecksumIEEE(line[digits+1:])
	for i := digits - 1; i >= 0; i-- {
		line[i] = "0123456789abcdef"[sum&15]
		sum >>= 4
	}
	return append(line, '\n'), nil
}

var errDamaged = errors.New("the row is damaged")

// decodeRow reads a line without its end.
func decodeRow(line []byte) (factory.Usage, error) {
	var u factory.Usage
	if len(line) < 9 || line[8] != ' ' {
		return u, errDamaged
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(line[9:]) {
		return u, errDamaged
	}
	return u, json.Unmarshal(line[9:], &u)
}

// measure counts the whole lines of a file, and the bytes of a last one that was
// cut short.
func measure(path string) (lines, whole, torn int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer f.Close()
	buf := make([]byte, readSize)
	var at int64
	for {
		n, err := f.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			whole = at + int64(i) + 1
		}
		at += int64(n)
		if err == io.EOF {
			return lines, whole, at - whole, nil
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
}

// batch is what goes to the ledger together.
type batch struct {
	rows    []factory.Usage
	damaged [][]byte // lines that are no rows any more
	from    *segment // nil for rows from memory
	upTo    int64    // of the segment, once all rows are dealt with
	lines   int64
	strikes map[string]int // by request id: refused although others were taken
	fails   int            // in a row, of the whole batch
}

// batchMost keeps one transaction of the ledger short.
const batchMost = 500

// readBatch reads the next rows of a segment.
func readBatch(seg *segment, size int64) (batch, error) {
	b := batch{from: seg, upTo: seg.read}
	f, err := os.Open(seg.path)
	if err != nil {
		return b, err
	}
	defer f.Close()
	buf := make([]byte, min(readSize, size-seg.read))
	n, err := f.ReadAt(buf, seg.read)
	if err != nil && err != io.EOF {
		return b, err
	}
	buf = buf[:n]
	for len(b.rows) < batchMost {
		line, after, ok := bytes.Cut(buf, []byte{'\n'})
		if !ok {
			break
		}
		if u, err := decodeRow(line); err != nil {
			b.damaged = append(b.damaged, bytes.Clone(line))
		} else {
			b.rows = append(b.rows, u)
		}
		b.lines++
		b.upTo += int64(len(line)) + 1
		buf = after
	}
	if b.lines == 0 {
		return b, fmt.Errorf("%s holds no whole row where one has to be", seg.path)
	}
	return b, nil
}
