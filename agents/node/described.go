package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"tokenfactory/factory"
)

// described is a machine that a file tells of, instead of being discovered.
type described struct {
	// Identity tells the machine from others; without one the data folder does.
	Identity string `json:"identity"`
	factory.Hardware
}

func readDescribed(path string) (described, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return described{}, fmt.Errorf("read the described hardware: %w", err)
	}
	d, err := parseDescribed(b)
	if err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// reread is the described machine as its file tells now. While the file cannot be read
// the machine stays as it was, and says so. Which machine it is was settled at the start.
func (m *machine) reread() factory.Hardware {
	if m.file == "" {
		return m.described.Hardware
	}
	d, err := readDescribed(m.file)
	if err != nil {
		h := m.described.Hardware
		h.Warnings = append(slices.Clip(h.Warnings), "The description of this machine has an error, and its last good content is used: "+err.Error()+".")
		return h
	}
	m.described = &d
	return d.Hardware
}

// parseDescribed reads YAML or JSON, which is YAML too, by the names of the API. A
// misspelt field would be a machine that lacks something, so it is refused.
func parseDescribed(b []byte) (described, error) {
	var d described
	j, err := yaml.YAMLToJSON(b)
	if err != nil {
		return d, fmt.Errorf("not YAML: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(j))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("not a description of a machine: %w", err)
	}
	if d.Arch == "" {
		return d, fmt.Errorf("not a description of a machine: it needs an arch, such as amd64 or arm64")
	}
	d.Arch = goArch(d.Arch)
	seen := map[string]bool{}
	for i, g := range d.GPUs {
		if g.UUID == "" || seen[g.UUID] {
			return d, fmt.Errorf("GPU %d needs a uuid of its own", i)
		}
		seen[g.UUID] = true
	}
	return d, nil
}

// identity is the file's, or one that goes with the data folder: several described
// machines may be on one real one.
func (d described) identity(dataDir string) (string, error) {
	if id := strings.TrimSpace(d.Identity); id != "" {
		return digest("described", id), nil
	}
	s, err := salt(dataDir)
	return digest("described", s), err
}
