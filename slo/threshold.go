package slo

import "tokenfactory/metrics"

// Exceeds says whether a percentile of an engine's histogram lies above a bound. Buckets
// answer only as far as they reach: above the last one a percentile may be anything, and
// under the first one it is no more than the bucket's width.
func Exceeds(e metrics.Estimate, bound float64) Finding {
	switch {
	case e.Above != nil:
		if *e.Above >= bound {
			return Wrong
		}
		return Unknown
	case e.AtMost != nil:
		if *e.AtMost <= bound {
			return Right
		}
		return Unknown
	case e.Value == nil:
		return Unknown
	case *e.Value > bound:
		return Wrong
	}
	return Right
}
