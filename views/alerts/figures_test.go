package alerts

import (
	"testing"

	"tokenfactory/metrics"
	"tokenfactory/slo"
)

func TestEvidenceIsWrittenWithItsUnit(t *testing.T) {
	for _, c := range []struct {
		name  metrics.Name
		value float64
		want  string
	}{
		{metrics.TTFT, 2410, "2.41 s"}, {metrics.ITL, 84.2, "84.2 ms"}, {metrics.KVCache, 0.925, "92.5 %"}, {metrics.Failures, 0.5, "50 %"},
		{metrics.Waiting, 3, "3"}, {metrics.Waiting, 2.5, "2.50"}, {metrics.PromptLength, 1234.4, "1,234 tokens"}, {metrics.GPUClock, 1410, "1,410 MHz"},
		{metrics.GPUTemperature, 84, "84 °C"}, {"", 2, "2"},
	} {
		if got := evidenceValue(c.name, &c.value); got != c.want {
			t.Errorf("%s %v is written %q, want %q", c.name, c.value, got, c.want)
		}
	}
	if got := evidenceValue(metrics.TTFT, nil); got != "–" {
		t.Errorf("what is not known is written %q", got)
	}
}

func TestFiguresThatAreNotKnownAreNoZeros(t *testing.T) {
	used := 0.8
	a := Alert{Seen: slo.Payload{Figures: map[string]*float64{"budget_used": &used, "drift": nil, "later": &used}}}
	got := a.figures()
	if len(got) != 2 || got[0] != (figure{"Difference", "Not known"}) || got[1] != (figure{"Used of the budget", "80 %"}) {
		t.Errorf("%+v", got)
	}
}
