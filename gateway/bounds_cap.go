package gateway

import "strconv"

// capEdits is how many edits it takes at most to put a bound into a request that
// has none: one for each field.
const capEdits = 3

// capEdits puts the cap in the place of values that bound nothing, or else says what
// to insert.
func (q *request) capEdits(edits []edit) (made []edit, insert string) {
	n := strconv.FormatInt(q.cap, 10)
	if len(q.bound.at) == 0 {
		return nil, `"` + q.bound.field + `":` + n + ","
	}
	for _, at := range q.bound.at {
		edits = append(edits, edit{at, n})
	}
	return edits, ""
}
