package ui

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

func TestFiguresAreWrittenWithThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.84: "0.84", 9.994: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 1234.5: "1,235", -12.34: "-12.3",
	} {
		if got := Significant(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestLatenciesChooseTheirUnit(t *testing.T) {
	for ms, want := range map[float64]string{0.4: "0.40 ms", 84.2: "84.2 ms", 999.4: "999 ms", 999.6: "1.00 s", 1310: "1.31 s", 59_940: "59.9 s", 60_000: "1.00 min", 150_000: "2.50 min"} {
		if got := MillisText(ms); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}

func TestCountsAndSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "−1,234"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 128 << 30: "128 GiB", 85_520_809_984: "79.6 GiB"} {
		if got := BytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if Plural(1, "key") != "1 key" || Plural(0, "key") != "0 keys" || Plural(1200, "key") != "1,200 keys" {
		t.Error("plural is wrong")
	}
}

func TestLongIDsAreCutInTheMiddle(t *testing.T) {
	if got := MiddleCut("abcdefghijklmnopqrstuvwxyz"); got != "abcdef…vwxyz" {
		t.Error(got)
	}
	if got := MiddleCut("short"); got != "short" {
		t.Error(got)
	}
}

func TestTimesAreInTheViewersZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 0, 30, 0, 0, time.UTC)
	ctx := With(context.Background(), Request{Zone: berlin, Now: now})
	for at, want := range map[time.Time]string{
		now.Add(-time.Minute):                                ">01:29:00<",
		now.Add(-2 * time.Hour):                              ">30 Nov, 23:30<", // yesterday in Berlin
		time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC):         ">1 Jun 2025, 14:00<",
		time.Date(2026, 11, 30, 23, 10, 5, 0, time.UTC):      ">00:10:05<", // already today there
		time.Date(2026, 12, 31, 23, 30, 0, 0, time.UTC):      ">1 Jan 2027, 00:30<",
		time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UTC():   ">01:00:00<",
		time.Date(2026, 11, 30, 22, 59, 59, 0, time.UTC):     ">30 Nov, 23:59<",
		time.Date(2026, 11, 30, 22, 59, 59, 999, time.UTC):   ">30 Nov, 23:59<",
		time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC).UTC(): ">00:00:00<",
	} {
		var b bytes.Buffer
		if err := Time(at).Render(ctx, &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) || !strings.Contains(b.String(), `datetime="`+at.UTC().Format(time.RFC3339)) {
			t.Errorf("%s: %s, want %s", at, b.String(), want)
		}
	}
	for d, want := range map[time.Duration]string{0: "just now", -45 * time.Second: "45 s ago", -3 * time.Hour: "3 h ago", -72 * time.Hour: "3 d ago", 10 * time.Minute: "in 10 min"} {
		if got := ago(now, now.Add(d)); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestFieldTellsItsErrorToScreenReaders(t *testing.T) {
	var b bytes.Buffer
	f := Field{Name: "replicas", Label: "Replicas", Value: `"two"`, Error: "Write a whole number.", Hint: "Copies of the engine."}
	if err := Input(f).Render(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`aria-invalid="true"`, `aria-describedby="field-replicas-error field-replicas-hint"`, `value="&#34;two&#34;"`, `for="field-replicas"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}
