package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// self is what an agent remembers over restarts: who it is.
type self struct {
	file       string
	NodeID     string `json:"node_id"`
	Credential string `json:"credential"`
	Used       string `json:"used"`    // hash of the join token that was used
	Address    string `json:"address"` // of this machine, as last found out
	Marks      marks  `json:"marks"`   // of the machine that the folder was made on
}

func openSelf(dir string) (self, error) {
	m := self{file: filepath.Join(dir, "agent.json")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, fmt.Errorf("make the data folder: %w", err)
	}
	b, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read who this agent is: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s is damaged; remove it and join again with a new token: %w", m.file, err)
	}
	return m, nil
}

func (m self) save() error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(m.file, b)
}
