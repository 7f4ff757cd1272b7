package factory_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"tokenfactory/factory"
)

func TestOrderedIDsFollowTime(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z2-7]{26}$`)
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	var ids []string
	seen := map[string]bool{}
	for _, step := range []time.Duration{0, time.Millisecond, 31 * time.Millisecond, 32 * time.Millisecond, time.Second, time.Hour, 24 * 365 * time.Hour, 100 * 24 * 365 * time.Hour} {
		ids = append(ids, factory.NewOrderedID(at.Add(step)))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids of later times come earlier: %v", ids)
	}
	for range 1000 {
		ids = append(ids, factory.NewOrderedID(at))
	}
	for _, id := range append(ids, factory.NewID()) {
		if !shape.MatchString(id) {
			t.Errorf("%q does not look like an id", id)
		}
		if seen[id] {
			t.Errorf("%q came twice", id)
		}
		seen[id] = true
	}
}
