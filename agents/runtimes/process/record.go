package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tokenfactory/factory"
)

const recordFile = "replica.json"

// record is what is known of a replica on disk. A process is named by its number,
// the moment it was started and the boot it belongs to: numbers alone are used again.
type record struct {
	Spec     factory.ReplicaSpec `json:"spec"` // as wanted last
	Ending   bool                `json:"ending,omitempty"`
	Revision int                 `json:"revision,omitempty"` // of the process
	// Launching is set while an engine is being started and its number not yet known.
	Launching  bool      `json:"launching,omitempty"`
	PID        int       `json:"pid,omitempty"`
	StartTicks uint64    `json:"start_ticks,omitempty"`
	Boot       string    `json:"boot,omitempty"`
	Port       int       `json:"port,omitempty"`
	Listen     string    `json:"listen,omitempty"`   // the host that it listens on
	LogFrom    int64     `json:"log_from,omitempty"` // where the process's output begins in its log
	StartedAt  time.Time `json:"started_at,omitzero"`
	ReadyAt    time.Time `json:"ready_at,omitzero"` // when the process first made a token; zero while it does not serve
	ServedName string    `json:"served_name,omitempty"`
	Restarts   int       `json:"restarts,omitempty"`
}

// load reads the records of an earlier agent. One that cannot be read is no reason
// not to look after the others.
func (rt *Runtime) load() ([]record, error) {
	if err := os.MkdirAll(rt.folder(), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of replicas: %w", err)
	}
	entries, err := os.ReadDir(rt.folder())
	if err != nil {
		return nil, fmt.Errorf("read the folder of replicas: %w", err)
	}
	var out []record
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(rt.folder(), e.Name(), recordFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var rec record
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if err == nil && (rec.Spec.ID != e.Name() || !idPattern.MatchString(rec.Spec.ID)) {
			err = errors.New("it is not of this replica")
		}
		if err != nil {
			rt.Log.Error("a replica's record cannot be read; it is left alone", "folder", e.Name(), "err", err)
			continue
		}
		out = append(out, rec)
	}
	return out, nil
}

// save writes the record so that a reader finds the old one or the new one. Only
// the agent's user may read it: the spec's environment can hold secrets.
func (rec record) save(dir string) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
