package process

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// shown is what other goroutines read of the engine that runs.
type shown struct {
	engine  string
	base    string // as this machine reaches it
	run     string // see Target.Run
	logFrom int64
	linesAt time.Time // when the last lines were read
	secrets []string
	serves  bool // or has: its counters are worth reading
}

// readLinesEvery is how often an engine that is well has its last lines read again.
const readLinesEvery = 10 * time.Second

// update changes the status, and tells when people would see a difference.
func (r *replica) update(change func(s *factory.ReplicaStatus)) {
	r.mu.Lock()
	before := r.status
	change(&r.status)
	if r.status.State != before.State {
		r.shown.linesAt = time.Time{}
	}
	if r.status.State == factory.Failed || r.status.State == factory.Stopped {
		r.shown.serves = false
	}
	changed := r.status.State != before.State || r.status.Revision != before.Revision || r.status.URL != before.URL || r.status.ServedName != before.ServedName
	r.mu.Unlock()
	if changed {
		r.rt.noteChange()
	}
}

// set changes the state of the replica and says why.
func (r *replica) set(state factory.State, reason string) {
	r.update(func(s *factory.ReplicaStatus) {
		s.State, s.Reason = state, reason
		if state != factory.Ready {
			s.ReadyAt = nil
		}
	})
}

// begin notes that an engine runs, or is watched, and where.
func (r *replica) begin(e engines.Engine, base, url string) {
	rec := r.rec
	r.mu.Lock()
	r.shown = shown{engine: e.Name, base: base, logFrom: rec.LogFrom, secrets: secretsIn(rec.Spec.Env)}
	if rec.PID != 0 {
		r.shown.run = strconv.Itoa(rec.PID) + ":" + strconv.FormatUint(rec.StartTicks, 10)
	}
	r.shown.serves = !rec.ReadyAt.IsZero()
	r.mu.Unlock()
	r.update(func(s *factory.ReplicaStatus) {
		failed := s.State == factory.Failed
		s.Revision, s.URL, s.ServedName = rec.Spec.Revision, url, rec.Spec.ServedName
		s.PID, s.Restarts, s.Progress = rec.PID, rec.Restarts, ""
		s.StartedAt, s.ReadyAt = nil, nil
		if !rec.StartedAt.IsZero() {
			s.StartedAt = &rec.StartedAt
		}
		switch {
		case !rec.ReadyAt.IsZero():
			// An earlier agent saw it serve; unless the first health check says otherwise
			// no request has to wait for us.
			s.State, s.Reason, s.ServedName, s.ReadyAt = factory.Ready, "Serving.", rec.ServedName, &rec.ReadyAt
		case rec.Spec.Address != "":
			s.State, s.Reason = factory.Loading, "Looking whether the engine at "+base+" serves."
		case failed:
			s.State, s.Reason = factory.Starting, "Starting again. "+firstSentence(s.Reason)
		default:
			s.State, s.Reason = factory.Starting, "The engine is coming up."
		}
	})
}

// observe is the status with the engine's last lines.
func (r *replica) observe() factory.ReplicaStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if every := readLinesEvery; r.spec.Address == "" && r.shown.engine != "" && (r.status.State != factory.Ready || time.Since(r.shown.linesAt) > every) {
		if lines := r.log.tail(r.shown.logFrom, r.shown.secrets); len(lines) > 0 {
			r.status.LastLines = lines
		}
		r.shown.linesAt = time.Now()
		if r.status.State == factory.Loading || r.status.State == factory.Starting {
			r.status.Progress = progressIn(r.status.LastLines)
		}
	}
	s := r.status
	s.LastLines = slices.Clone(s.LastLines)
	return s
}

func (r *replica) target() (Target, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Target{ReplicaID: r.id, DeploymentID: r.spec.DeploymentID, Engine: r.shown.engine, URL: r.shown.base, Run: r.shown.run}, r.shown.serves
}

// done reports whether nothing of the replica is left to do.
func (r *replica) done() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.goal == end && r.status.State == factory.Stopped
}

// lasted writes a duration for people.
func lasted(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

func firstSentence(text string) string {
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '.' && text[i+1] == ' ' {
			return text[:i+1]
		}
	}
	return text
}
