package charts

import (
	"strconv"
	"strings"
)

// Size of a sparkline's drawing, in its own units.
const (
	sparkWidth  = 120.0
	sparkHeight = 28.0
	sparkEdge   = 2.0
)

// sparkPath draws values from left to right, with the pen up over gaps. A value
// between two gaps becomes a short dash, or it would not be seen.
func sparkPath(values []*float64) string {
	top := 0.0
	for _, v := range values {
		if v != nil && *v > top {
			top = *v
		}
	}
	if top == 0 {
		top = 1
	}
	step := sparkWidth
	if len(values) > 1 {
		step = sparkWidth / float64(len(values)-1)
	}
	var b strings.Builder
	down := false
	for i, v := range values {
		if v == nil {
			down = false
			continue
		}
		x := float64(i) * step
		y := sparkHeight - sparkEdge - *v/top*(sparkHeight-2*sparkEdge)
		if !down {
			b.WriteString("M" + coordinate(x) + " " + coordinate(y))
			if i+1 >= len(values) || values[i+1] == nil {
				b.WriteString("h1")
			}
		} else {
			b.WriteString("L" + coordinate(x) + " " + coordinate(y))
		}
		down = true
	}
	return b.String()
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
