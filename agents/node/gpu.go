package node

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokenfactory/factory"
)

// queryFields are asked for by name and read by place: units in headers and names
// of columns change between drivers.
var queryFields = []string{
	"index", "uuid", "name", "pci.bus_id", "driver_version", "compute_cap", "memory.total", "memory.used", "memory.free",
	"utilization.gpu", "utilization.memory", "temperature.gpu", "power.draw", "power.limit", "clocks.sm", "clocks.max.sm", "mig.mode.current",
}

// card is one line of nvidia-smi's answer, by field.
type card map[string]string

// parseQuery reads CSV of the given fields. A header line, when there is one, says
// the fields itself. What is no line of a card is returned as it is: nvidia-smi
// prints its complaints among them.
func parseQuery(text string, fields []string) (cards []card, complaints []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		values := strings.Split(line, ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if isHeader(values) {
			fields = make([]string, len(values))
			for i, v := range values {
				fields[i], _, _ = strings.Cut(v, " [")
			}
			continue
		}
		if len(values) != len(fields) {
			complaints = append(complaints, line)
			continue
		}
		c := card{}
		for i, f := range fields {
			c[f] = values[i]
		}
		cards = append(cards, c)
	}
	return cards, complaints
}

func isHeader(values []string) bool {
	name, _, _ := strings.Cut(values[0], " [")
	return slices.Contains(queryFields, name) || name == "timestamp"
}

// number reads a figure with or without its unit; nil when the driver has none. All
// of [N/A], [Not Supported], [Unknown Error], [GPU requires reset] and [Insufficient
// Permissions] are none, and none of them is zero.
func number(text string) *float64 {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || v != v || v < 0 {
		return nil
	}
	return &v
}

// mebibytes reads an amount of memory as bytes.
func mebibytes(text string) *int64 {
	v := number(text)
	if v == nil {
		return nil
	}
	n := int64(*v * (1 << 20))
	return &n
}

// said is a field's text, empty when the driver has none.
func (c card) said(field string) string {
	v := c[field]
	if strings.HasPrefix(v, "[") || strings.EqualFold(v, "N/A") {
		return ""
	}
	return v
}

// Devices that share the machine's memory with the CPU, by a word of their name.
// Grace Hopper and its like have memory of their own and are none of these.
var unifiedDevices = []string{"GB10", "N1X", "Orin", "Thor", "Xavier"}

func isUnified(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' || r == '(' || r == ')' || r == '/' })
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(unifiedDevices, w) })
}

// gpu is the card with its own memory's figures, or the machine's when they share it.
func (c card) gpu(mem memory) factory.GPU {
	g := factory.GPU{
		UUID:        c.said("uuid"),
		Name:        c.said("name"),
		BusID:       c.said("pci.bus_id"),
		ComputeCap:  c.said("compute_cap"),
		MemoryBytes: mebibytes(c["memory.total"]),
		UsedBytes:   mebibytes(c["memory.used"]),
		Utilisation: number(c["utilization.gpu"]),
		Temperature: number(c["temperature.gpu"]),
		PowerWatts:  number(c["power.draw"]),
		ClockMHz:    number(c["clocks.sm"]),
		ClockMaxMHz: number(c["clocks.max.sm"]),
		Partitioned: strings.EqualFold(c["mig.mode.current"], "Enabled"),
	}
	if n := number(c["index"]); n != nil {
		g.Index = int(*n)
	}
	if isUnified(g.Name) {
		// Whatever the driver says: some say nothing, and some a small number that is wrong.
		g.Unified = true
		g.MemoryBytes, g.UsedBytes = mem.figures()
	}
	g.Unhealthy = c.unhealthy(g)
	if g.UUID == "" {
		g.UUID = fmt.Sprintf("no-uuid-%d", g.Index)
	}
	return g
}

func (c card) unhealthy(g factory.GPU) string {
	for _, v := range c {
		if strings.EqualFold(v, "[GPU requires reset]") {
			return fmt.Sprintf("The driver says that it must be reset: stop what uses it and run nvidia-smi --gpu-reset -i %d.", g.Index)
		}
	}
	switch {
	case g.UUID == "":
		return "The driver gives it no UUID, so that no engine can be told to use it."
	case g.MemoryBytes == nil && g.Unified:
		return "It shares the machine's memory, and the machine does not say how much that is."
	case g.MemoryBytes == nil && !g.Partitioned:
		return "The driver answers " + orNothing(c["memory.total"]) + " when asked for its memory. Look at dmesg for NVRM errors; often a restart of the machine helps, else the card is broken."
	}
	return ""
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// slice is a MIG device as nvidia-smi -L lists it.
type slice struct {
	uuid    string
	profile string
	device  int // its number on its card
}

var (
	listedCard  = regexp.MustCompile(`^GPU (\d+): (.*) \(UUID: ([^)]+)\)$`)
	listedSlice = regexp.MustCompile(`^MIG (\S+)\s+Device\s+(\d+):\s+\(UUID: ([^)]+)\)$`)
)

// parseList reads nvidia-smi -L: the slices of each card, by the card's UUID.
func parseList(text string) (cards []card, of map[string][]slice) {
	of = map[string][]slice{}
	parent := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := listedCard.FindStringSubmatch(line); m != nil {
			parent = m[3]
			cards = append(cards, card{"index": m[1], "name": m[2], "uuid": m[3]})
		} else if m := listedSlice.FindStringSubmatch(line); m != nil && parent != "" {
			device, _ := strconv.Atoi(m[2])
			of[parent] = append(of[parent], slice{m[3], m[1], device})
		}
	}
	return cards, of
}

// assemble lists cards by bus, which is the order that stays, each followed by its
// slices. A card that is cut is not offered as a whole.
func assemble(cards []card, slicesOf map[string][]slice, d details, mem memory) []factory.GPU {
	var out []factory.GPU
	for _, c := range cards {
		out = append(out, c.gpu(mem))
	}
	slices.SortStableFunc(out, func(a, b factory.GPU) int {
		return cmp.Or(slices.Compare(busNumbers(a.BusID), busNumbers(b.BusID)), cmp.Compare(a.Index, b.Index))
	})
	var all []factory.GPU
	for _, g := range out {
		parts := slicesOf[g.UUID]
		if len(parts) > 0 {
			g.Partitioned = true
			if g.MemoryBytes == nil {
				g.Unhealthy = "" // without permission the whole card's figures are not shown
			}
		}
		all = append(all, g)
		for _, p := range parts {
			m := d.slices[g.UUID][p.device]
			all = append(all, factory.GPU{
				UUID: p.uuid, Index: g.Index, Name: g.Name + " MIG " + p.profile, BusID: g.BusID, ComputeCap: g.ComputeCap,
				MemoryBytes: m.total, UsedBytes: m.used, Temperature: g.Temperature,
				MIGProfile: p.profile, ParentUUID: g.UUID, Unhealthy: g.Unhealthy,
			})
		}
	}
	return all
}

// busNumbers makes bus ids comparable: domains are written with four or eight digits.
func busNumbers(id string) []uint64 {
	var out []uint64
	for _, part := range strings.FieldsFunc(id, func(r rune) bool { return r == ':' || r == '.' }) {
		n, _ := strconv.ParseUint(part, 16, 64)
		out = append(out, n)
	}
	return out
}
