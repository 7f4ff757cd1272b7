package metrics

import (
	"fmt"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// adder adds encoded sketches up. A chart merges tens of thousands of them: this reads each
// once, and allocates next to nothing for it.
type adder struct {
	first int64 // number of the first page
	pages []*binPage
	zeros float64
}

// binPage are the counts of neighbouring bins. A sketch of an agent may have bins at both
// ends of what a float holds, and what lies between must not take memory.
type binPage [1 << pageBits]float64

const pageBits = 6

// addEncoded adds a sketch, or several that were written one after the other, which is the
// same as their merger. On an error a is of no use any more.
func (a *adder) addEncoded(encoded []byte) error {
	return walk(encoded, a.add, func(n float64) { a.zeros += n })
}

func (a *adder) add(bin int64, count float64) {
	if count == 0 {
		return // encoded pages end with empty bins
	}
	n := bin>>pageBits - a.first
	if n < 0 || n >= int64(len(a.pages)) {
		n = a.reach(bin >> pageBits)
	}
	if a.pages[n] == nil {
		a.pages[n] = &binPage{}
	}
	a.pages[n][bin&(1<<pageBits-1)] += count
}

// reach makes room for a page and returns its place.
func (a *adder) reach(page int64) int64 {
	if len(a.pages) == 0 {
		a.first = page
	}
	first, last := min(a.first, page), max(a.first+int64(len(a.pages)), page+1)
	pages := make([]*binPage, last-first)
	copy(pages[a.first-first:], a.pages)
	a.first, a.pages = first, pages
	return page - first
}

func (a *adder) each(visit func(bin int64, count float64)) {
	for i, page := range a.pages {
		if page == nil {
			continue
		}
		for j, count := range page {
			if count > 0 {
				visit((a.first+int64(i))<<pageBits+int64(j), count)
			}
		}
	}
}

func (a *adder) merge(o *adder) {
	o.each(a.add)
	a.zeros += o.zeros
}

// quantiles are those of the sum, by nearest rank as Sketch.Quantiles has them; nil when
// nothing was added. qs ascend.
func (a *adder) quantiles(qs []float64) []float64 {
	n := a.zeros
	a.each(func(_ int64, count float64) { n += count })
	if n == 0 {
		return nil
	}
	out := make([]float64, 0, len(qs))
	for len(out) < len(qs) && nearestRank(qs[len(out)], n)*(n-1) < a.zeros {
		out = append(out, 0)
	}
	upTo, last := a.zeros, int64(0)
	a.each(func(bin int64, count float64) {
		upTo, last = upTo+count, bin
		for len(out) < len(qs) && nearestRank(qs[len(out)], n)*(n-1) < upTo {
			out = append(out, indexMapping.Value(int(bin)))
		}
	})
	for len(out) < len(qs) { // rounding of large counts
		out = append(out, indexMapping.Value(int(last)))
	}
	return out
}

// sketch is the sum of all that was added.
func (a *adder) sketch() (*Sketch, error) {
	positive := store.NewBufferedPaginatedStore()
	a.each(func(bin int64, count float64) { positive.AddWithCount(int(bin), count) })
	s := &Sketch{ddsketch.NewDDSketch(indexMapping, positive, store.DefaultProvider())}
	if a.zeros > 0 {
		if err := s.dd.AddWithCount(0, a.zeros); err != nil {
			return nil, fmt.Errorf("add zeros: %w", err)
		}
	}
	return s, nil
}
