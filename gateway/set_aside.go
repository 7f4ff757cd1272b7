package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tokenfactory/factory"
)

func (s *spool) putAsideRow(u factory.Usage, why error) error {
	line, err := encodeRow(u)
	if err != nil {
		return err
	}
	s.log.Error("a usage row is set aside", "request", u.ID, "tenant", u.TenantID, "deployment", u.DeploymentID, "err", why)
	return s.putAside(line[:len(line)-1], why.Error())
}

// putAside keeps a line that will never be in the ledger where an operator finds it.
func (s *spool) putAside(line []byte, why string) error {
	f, err := os.OpenFile(filepath.Join(s.dir, setAsideName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("set a usage row aside: %w", err)
	}
	_, err = f.Write(append(mustJSON(struct {
		At   time.Time `json:"at"`
		Why  string    `json:"why"`
		Line string    `json:"line"`
	}{time.Now().UTC(), why, string(line)}), '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set a usage row aside: %w", err)
	}
	s.mu.Lock()
	s.setAside++
	s.mu.Unlock()
	return nil
}
