package sim

import (
	"net/http"
	"strings"
)

// controlPath is where faults are started and ended. It answers also while the engine
// loads or has crashed: it is no part of what is simulated.
const controlPath = "/sim/faults"

func (e *Engine) control(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		var f Fault
		p := decode(w, r, &f)
		if p == nil {
			if err := e.Start(f); err != nil {
				p = badRequest("kind", strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".")
			}
		}
		if p != nil {
			refuse(w, p)
			return
		}
		if f.Kind == Crash && f.For == 0 && e.OnCrash != nil {
			defer e.OnCrash()
		}
	case http.MethodDelete:
		ended := kinds
		if kind := r.URL.Query().Get("kind"); kind != "" {
			ended = []FaultKind{FaultKind(strings.ReplaceAll(kind, "-", "_"))}
		}
		for _, k := range ended {
			e.End(k)
		}
	default:
		refuse(w, &problem{http.StatusMethodNotAllowed, "MethodNotAllowedError", "", "Faults are read with GET, started with POST and ended with DELETE."})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"faults": e.Faults()})
	// What comes next may be the end of the process.
	_ = http.NewResponseController(w).Flush()
}
