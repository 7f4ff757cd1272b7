package handlers

import (
	"sync"
	"time"
)

// reveal keeps secrets between the form that makes one and the page that shows it:
// in memory only, for one reading, and for a few minutes.
type reveal struct {
	mu      sync.Mutex
	secrets map[string]revealed
}

type revealed struct {
	secret string
	until  time.Time
}

// revealFor is how long a person has from the form to the page.
const revealFor = 5 * time.Minute

func (r *reveal) keep(id, secret string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secrets == nil {
		r.secrets = map[string]revealed{}
	}
	for k, v := range r.secrets {
		if now.After(v.until) {
			delete(r.secrets, k)
		}
	}
	r.secrets[id] = revealed{secret, now.Add(revealFor)}
}

// take returns a secret once; afterwards it is empty.
func (r *reveal) take(id string, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, ok := r.secrets[id]
	delete(r.secrets, id)
	if !ok || now.After(kept.until) {
		return ""
	}
	return kept.secret
}
