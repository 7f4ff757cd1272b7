package slo

import (
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestPastKeepsAwayFromWhereTheTroubleMayHaveBegun(t *testing.T) {
	for _, c := range []struct{ length, away time.Duration }{
		{5 * time.Minute, time.Hour}, {30 * time.Minute, 6 * time.Hour}, {2 * time.Hour, 24 * time.Hour}, {6 * time.Hour, 72 * time.Hour},
		{72 * time.Hour, 72 * time.Hour}, {30 * 24 * time.Hour, 30 * 24 * time.Hour},
	} {
		got := Past(noon.Add(-c.length), noon)
		if first := got[0]; !first.To.Equal(noon.Add(-c.away)) || first.To.Sub(first.From) != 24*time.Hour {
			t.Errorf("%s: %+v", c.length, got)
		}
		if last := got[len(got)-1]; last.To.After(noon.Add(-c.length)) || noon.Add(-c.length).Sub(last.To) >= time.Hour {
			t.Errorf("%s: the nearest past %+v", c.length, last)
		}
	}
}

// asked observes a quiet minute of one replica.
func (m *memory) asked(t *testing.T, at time.Time, replica string, itl float64) {
	t.Helper()
	var r metrics.Recorder
	r.Observe(at, "d", replica, metrics.Requests, 1, 30)
	r.Observe(at, "d", replica, metrics.TTFT, 120, 30)
	r.Observe(at, "d", replica, metrics.ITL, itl, 300)
	m.keep(t, r.Flush())
}

func TestOneReplicaIsHeldAgainstItsOwnPast(t *testing.T) {
	m := newMemory()
	for hour := range 30 {
		m.asked(t, noon.Add(-time.Duration(hour+1)*time.Hour), "slow", 30)
		m.asked(t, noon.Add(-time.Duration(hour+1)*time.Hour), "fine", 30)
	}
	m.asked(t, noon.Add(-time.Minute), "slow", 400)
	m.asked(t, noon.Add(-time.Minute), "fine", 30)
	find := func(only string) Diagnosis {
		s := Subject{Deployment: factory.Deployment{ID: "d", DeploymentSpec: factory.DeploymentSpec{Workload: factory.Interactive}}, Only: only}
		from := noon.Add(-5 * time.Minute)
		now, err := s.Figures(t.Context(), m, from, noon)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Diagnose(t.Context(), m, now, from, noon)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	slow, fine := find("slow"), find("fine")
	if slow.Signature != DecodeBound || slow.Past == nil || slow.Evidence[0].Figure != "ITL p95" || !slow.Evidence[0].Missed() {
		t.Errorf("%+v", slow)
	}
	if fine.Signature != Healthy {
		t.Errorf("%+v", fine)
	}
}

func TestAYoungDeploymentIsHeldAgainstTheHoursRightBefore(t *testing.T) {
	m := newMemory()
	for hour := range 4 {
		m.asked(t, noon.Add(-time.Duration(hour+1)*time.Hour), "r", 30)
	}
	m.asked(t, noon.Add(-time.Minute), "r", 90)
	s := Subject{Deployment: factory.Deployment{ID: "d", DeploymentSpec: factory.DeploymentSpec{Workload: factory.Interactive}}}
	from := noon.Add(-30 * time.Minute)
	now, err := s.Figures(t.Context(), m, from, noon)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := s.Diagnose(t.Context(), m, now, from, noon); err != nil || d.Signature != DecodeBound || d.Past == nil || !d.Past.To.After(noon.Add(-2*time.Hour)) {
		t.Errorf("%v, %+v", err, d)
	}
}
