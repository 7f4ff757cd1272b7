package factory

import "testing"

func TestNumbersAreReadAsTyped(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
		bad  bool
	}{
		{"8", 8, false}, {" 8 ", 8, false}, {"", 7, false}, {"131,072", 131072, false}, {"-1", -1, false},
		{"two", 7, true}, {"1.5", 7, true}, {"1,2", 7, true}, {"99999999999999999999", 7, true}, {"8k", 7, true},
	} {
		errs := FieldErrors{}
		got := errs.Whole("n", c.text, 7)
		if got != c.want || (errs["n"] != "") != c.bad {
			t.Errorf("%q: %d with %q", c.text, got, errs["n"])
		}
	}
}

func TestDecimalsAreReadAsTyped(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		bad  bool
	}{
		{"7.62", 7.62, false}, {"", 1, false}, {"NaN", 1, true}, {"Inf", 1, true}, {"7,62", 1, true}, {"seven", 1, true},
	} {
		errs := FieldErrors{}
		got := errs.Decimal("n", c.text, 1)
		if got != c.want || (errs["n"] != "") != c.bad {
			t.Errorf("%q: %v with %q", c.text, got, errs["n"])
		}
	}
}
