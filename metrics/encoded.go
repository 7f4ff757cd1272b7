package metrics

import (
	"errors"
	"fmt"
	"math"

	enc "github.com/DataDog/sketches-go/ddsketch/encoding"
)

// Bins outside these belong to no float64. The margin is for encoded pages, which
// end with empty bins.
const binMargin = 64

var (
	firstBin = int64(indexMapping.Index(indexMapping.MinIndexableValue())) - binMargin
	lastBin  = int64(indexMapping.Index(indexMapping.MaxIndexableValue())) + binMargin
)

var errBrokenSketch = errors.New("not a sketch of durations")

// checkEncoded walks through an encoded sketch before it is merged. The library
// ignores what goes wrong inside a store, so that a cut sketch would be merged in
// part, and takes any bin number, for which it allocates. Sketches come from
// agents over the network: neither may happen.
func checkEncoded(b []byte) error { return walk(b, func(int64, float64) {}, func(float64) {}) }

// walk reads an encoded sketch, or several one after the other, and tells of every bin and
// of the values that were zero.
func walk(b []byte, bin func(n int64, count float64), zero func(count float64)) error {
	for len(b) > 0 {
		flag, err := enc.DecodeFlag(&b)
		if err != nil {
			return errBrokenSketch
		}
		switch {
		case flag.Type() == enc.FlagTypePositiveStore:
			err = walkBins(&b, flag.SubFlag(), bin)
		case flag == enc.FlagZeroCountVarFloat:
			var n float64
			if n, err = readCount(&b); err == nil {
				zero(n)
			}
		default:
			// Negative values, exact summaries and foreign mappings: nothing of ours has them.
			err = errBrokenSketch
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func walkBins(b *[]byte, mode enc.SubFlag, visit func(n int64, count float64)) error {
	n, err := enc.DecodeUvarint64(b)
	// Every bin takes a byte at least.
	if err != nil || n > uint64(len(*b)) {
		return errBrokenSketch
	}
	var bin, delta int64
	if mode == enc.BinEncodingContiguousCounts {
		if bin, err = enc.DecodeVarint64(b); err == nil {
			delta, err = enc.DecodeVarint64(b)
		}
		if err != nil || delta < 1 || delta > lastBin-firstBin {
			return errBrokenSketch
		}
		bin -= delta // the first bin has no delta before it
	}
	for range n {
		switch mode {
		case enc.BinEncodingIndexDeltas, enc.BinEncodingIndexDeltasAndCounts:
			if delta, err = enc.DecodeVarint64(b); err != nil || delta < firstBin-lastBin || delta > lastBin-firstBin {
				return errBrokenSketch
			}
		case enc.BinEncodingContiguousCounts:
		default:
			return errBrokenSketch
		}
		if bin += delta; bin < firstBin || bin > lastBin {
			return fmt.Errorf("%w: bin %d", errBrokenSketch, bin)
		}
		count := 1.0
		if mode != enc.BinEncodingIndexDeltas {
			if count, err = readCount(b); err != nil {
				return err
			}
		}
		visit(bin, count)
	}
	return nil
}

func readCount(b *[]byte) (float64, error) {
	n, err := enc.DecodeVarfloat64(b)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return 0, errBrokenSketch
	}
	return n, nil
}
