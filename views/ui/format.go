package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a whole number with thousands separated: 1,234,567.
func Count[T ~int | ~int32 | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "−", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Plural writes a count with its noun: 1 key, 2 keys.
func Plural[T ~int | ~int32 | ~int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Bytes splits a size into figure and unit, in powers of 1024.
func Bytes(n int64) (figure, unit string) {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return strconv.FormatInt(n, 10), units[0]
	}
	return Significant(v), units[i]
}

// BytesText is Bytes in one string.
func BytesText(n int64) string {
	figure, unit := Bytes(n)
	return figure + " " + unit
}

// Millis splits a duration in milliseconds into figure and unit: 84.2 ms, 1.31 s, 2.5 min.
func Millis(ms float64) (figure, unit string) {
	switch {
	case ms < 999.5:
		return Significant(ms), "ms"
	case ms < 59_950:
		return Significant(ms / 1000), "s"
	default:
		return Significant(ms / 60_000), "min"
	}
}

// MillisText is Millis in one string.
func MillisText(ms float64) string {
	figure, unit := Millis(ms)
	return figure + " " + unit
}

// Significant writes three significant digits without an exponent: 0.84, 12.3, 123,
// 1,234. More would pretend an accuracy that percentiles do not have.
func Significant(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case a >= 99.95:
		return Count(int64(math.Round(v)))
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Percent writes a share of 100 with at most three significant digits and no zeros at
// the end: 95 %, 33.3 %, 0.25 %.
func Percent(v float64) string {
	text := Significant(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " %"
}

// Span writes how long something is in its largest unit: 45 s, 12 min, 3 h, 2 d.
func Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// ago writes how far t lies from now, in words.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < -time.Second:
		return "in " + Span(-d)
	case d < time.Second:
		return "just now"
	default:
		return Span(d) + " ago"
	}
}

// MiddleCut shortens a long id to its beginning and end, which people compare.
func MiddleCut(s string) string {
	r := []rune(s)
	if len(r) <= 16 {
		return s
	}
	return string(r[:6]) + "…" + string(r[len(r)-5:])
}
