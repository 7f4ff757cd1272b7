package node

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tokenfactory/factory"
)

// marks are what tell this machine from others, hashed: some are secret where they
// are kept. An empty mark is one that could not be read, which says nothing.
type marks struct {
	MachineID string   `json:"machine_id,omitempty"` // goes with the disk
	Board     string   `json:"board,omitempty"`      // goes with the hardware; often for root only
	GPUs      []string `json:"gpus,omitempty"`
	Salt      string   `json:"salt,omitempty"` // goes with the data folder; only without all others
}

func readMarks(root, dataDir string, gpus []factory.GPU) (marks, error) {
	var m marks
	for _, path := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
		// "uninitialized" is what images are shipped with.
		if v := firstLine(root, path); m.MachineID == "" && len(v) >= 32 {
			m.MachineID = digest("machine-id", v)
		}
	}
	for _, path := range []string{"sys/class/dmi/id/product_uuid", "sys/class/dmi/id/board_serial", "sys/firmware/devicetree/base/serial-number"} {
		if v := firstLine(root, path); m.Board == "" && telling(v) {
			m.Board = digest("board", v)
		}
	}
	for _, g := range gpus {
		if g.MIGProfile == "" && strings.HasPrefix(g.UUID, "GPU-") {
			m.GPUs = append(m.GPUs, g.UUID)
		}
	}
	if m.MachineID != "" || m.Board != "" {
		return m, nil
	}
	var err error
	m.Salt, err = salt(dataDir)
	return m, err
}

// telling reports whether a serial number is one: boards are sold with these.
func telling(v string) bool {
	switch strings.ToLower(v) {
	case "", "none", "n/a", "not specified", "default string", "to be filled by o.e.m.", "0123456789", "system serial number":
		return false
	}
	return strings.Trim(v, "0-") != "" && strings.Trim(strings.ToLower(v), "f-") != ""
}

func firstLine(root, path string) string {
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimRight(string(b), "\x00\n"), "\n")
	return strings.TrimSpace(line)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte("tokenfactory node\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// salt is made once for a data folder.
func salt(dataDir string) (string, error) {
	path := filepath.Join(dataDir, "salt")
	b, err := os.ReadFile(path)
	if err == nil && len(b) > 0 {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the data folder's salt: %w", err)
	}
	s := rand.Text()
	return s, writeFile(path, []byte(s))
}

// identity is the machine's own. GPUs are not part of it: cards fail and are
// replaced, and the machine stays.
func (m marks) identity() string { return digest(m.MachineID, m.Board, m.Salt) }

// same reports whether marks that were read at different times can be of one
// machine, and otherwise says what differs.
func (m marks) same(o marks) (bool, string) {
	switch {
	case m.MachineID != "" && o.MachineID != "" && m.MachineID != o.MachineID:
		return false, "machine id"
	case m.Board != "" && o.Board != "" && m.Board != o.Board:
		return false, "board"
	case m.Salt != "" && o.Salt != "" && m.Salt != o.Salt:
		return false, "data folder"
	case m.Board == "" && len(m.GPUs) > 0 && len(o.GPUs) > 0 && !overlap(m.GPUs, o.GPUs):
		return false, "GPUs"
	}
	return true, ""
}

func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}
