package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tokenfactory/factory"
)

// memory is the machine's own, in bytes.
type memory struct{ total, available int64 }

// figures are size and use, nil when the machine does not say.
func (m memory) figures() (total, used *int64) {
	if m.total <= 0 {
		return nil, nil
	}
	n := m.total
	if m.available <= 0 || m.available > m.total {
		return &n, nil
	}
	u := m.total - m.available
	return &n, &u
}

// parseMeminfo reads /proc/meminfo, whose kB are KiB.
func parseMeminfo(text string) memory {
	var m memory
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			m.total = n << 10
		case "MemAvailable":
			m.available = n << 10
		}
	}
	return m
}

// parseOS reads /etc/os-release.
func parseOS(text string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// parseCPU reads /proc/cpuinfo: what the processor is, and its cores. x86 lists a
// name and hardware threads; Arm lists numbers of makers and designs, several of
// them on chips that mix large and small cores.
func parseCPU(text string) (model string, cores int) {
	type group struct {
		name string
		n    int
	}
	var groups []group
	physical := map[string]bool{}
	threads := 0
	cpu := map[string]string{}
	flush := func() {
		if _, is := cpu["processor"]; !is {
			return
		}
		threads++
		if id, ok := cpu["core id"]; ok {
			physical[cpu["physical id"]+"/"+id] = true
		}
		name := cpu["model name"]
		if part := cpu["CPU part"]; part != "" {
			name = armCore(cpu["CPU implementer"], part)
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			groups = append(groups, group{name: name})
			i = len(groups) - 1
		}
		groups[i].n++
		cpu = map[string]string{}
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if ok && key == "processor" {
			flush()
		}
		if ok {
			cpu[key] = value
		}
	}
	flush()
	if cores = len(physical); cores == 0 {
		cores = threads
	}
	if len(groups) == 1 {
		return strings.Join(strings.Fields(groups[0].name), " "), cores
	}
	var names []string
	for _, g := range groups {
		if g.name != "" {
			names = append(names, fmt.Sprintf("%s (%d)", g.name, g.n))
		}
	}
	return strings.Join(names, " + "), cores
}

// Core designs by the numbers of their makers, for machines that have GPUs for
// inference.
var armCores = map[string]map[string]string{
	"0x41": {
		"0xd03": "Cortex-A53", "0xd05": "Cortex-A55", "0xd07": "Cortex-A57", "0xd08": "Cortex-A72", "0xd09": "Cortex-A73",
		"0xd0a": "Cortex-A75", "0xd0b": "Cortex-A76", "0xd0c": "Neoverse-N1", "0xd0d": "Cortex-A77", "0xd40": "Neoverse-V1",
		"0xd41": "Cortex-A78", "0xd42": "Cortex-A78AE", "0xd44": "Cortex-X1", "0xd46": "Cortex-A510", "0xd47": "Cortex-A710",
		"0xd48": "Cortex-X2", "0xd49": "Neoverse-N2", "0xd4b": "Cortex-A78C", "0xd4d": "Cortex-A715", "0xd4e": "Cortex-X3",
		"0xd4f": "Neoverse-V2", "0xd80": "Cortex-A520", "0xd81": "Cortex-A720", "0xd82": "Cortex-X4", "0xd83": "Neoverse-V3AE",
		"0xd84": "Neoverse-V3", "0xd85": "Cortex-X925", "0xd87": "Cortex-A725", "0xd8e": "Neoverse-N3",
	},
	"0x4e": {"0x003": "Denver 2", "0x004": "Carmel"},
	"0xc0": {"0xac3": "Ampere-1", "0xac4": "Ampere-1A"},
}

func armCore(maker, part string) string {
	if name := armCores[strings.ToLower(maker)][strings.ToLower(part)]; name != "" {
		return name
	}
	return "Arm core " + maker + "/" + part
}

// goArch is an architecture as Go names it, from uname's name.
func goArch(machine string) string {
	switch machine {
	case "aarch64", "arm64":
		return "arm64"
	case "x86_64", "amd64":
		return "amd64"
	case "":
		return runtime.GOARCH
	}
	return machine
}

// uname is the kernel's own words on itself.
func uname() (machine, release string) {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return "", ""
	}
	var m, r []byte
	for _, c := range u.Machine {
		if c == 0 {
			break
		}
		m = append(m, byte(c))
	}
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		r = append(r, byte(c))
	}
	return string(m), string(r)
}

// readSystem fills in all but GPUs and engines. root is / except in tests.
func readSystem(root string) (factory.Hardware, memory) {
	file := func(path string) string {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return ""
		}
		return string(b)
	}
	var h factory.Hardware
	h.Hostname, _ = os.Hostname() // without one the server names the node
	machine, release := uname()
	h.Arch, h.Kernel = goArch(machine), release
	if h.OS = parseOS(file("etc/os-release")); h.OS == "" {
		h.OS = parseOS(file("usr/lib/os-release"))
	}
	h.CPUModel, h.CPUCores = parseCPU(file("proc/cpuinfo"))
	if h.CPUCores == 0 {
		h.CPUCores = runtime.NumCPU()
	}
	mem := parseMeminfo(file("proc/meminfo"))
	h.MemoryBytes = mem.total
	return h, mem
}
