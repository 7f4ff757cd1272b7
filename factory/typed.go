package factory

import (
	"regexp"
	"strconv"
	"strings"
)

// Digits may come grouped as people paste them: 131,072.
var groupedDigits = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)

// Whole reads a whole number as typed into a form. Empty text is the given
// value; text that is no number is reported at its field.
func (f FieldErrors) Whole(field, text string, empty int) int {
	text = strings.TrimSpace(text)
	if text == "" {
		return empty
	}
	if groupedDigits.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		f.Add(field, "Write a whole number in digits, such as 8.")
		return empty
	}
	return n
}

// Decimal reads a number that may have decimals, as typed into a form.
func (f FieldErrors) Decimal(field, text string, empty float64) float64 {
	text = strings.TrimSpace(text)
	if text == "" {
		return empty
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != n || n > 1e15 || n < -1e15 {
		f.Add(field, "Write a number, such as 7.6.")
		return empty
	}
	return n
}
