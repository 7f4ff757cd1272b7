package node

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
)

// details is what only the long answer has: the CUDA version and slices' memory.
type details struct {
	cuda   string
	slices map[string]map[int]amount // by the card's UUID and the slice's number
}

type amount struct{ total, used *int64 }

// parseDetails reads nvidia-smi -q -x.
func parseDetails(text string) (details, error) {
	var doc struct {
		CUDA string `xml:"cuda_version"`
		GPUs []struct {
			UUID   string `xml:"uuid"`
			Slices []struct {
				Index  int `xml:"index"`
				Memory struct {
					Total string `xml:"total"`
					Used  string `xml:"used"`
				} `xml:"fb_memory_usage"`
			} `xml:"mig_devices>mig_device"`
		} `xml:"gpu"`
	}
	if err := xml.Unmarshal([]byte(text), &doc); err != nil {
		return details{}, fmt.Errorf("read nvidia-smi's XML: %w", err)
	}
	d := details{slices: map[string]map[int]amount{}}
	if number(doc.CUDA) != nil {
		d.cuda = doc.CUDA
	}
	for _, g := range doc.GPUs {
		for _, s := range g.Slices {
			if d.slices[g.UUID] == nil {
				d.slices[g.UUID] = map[int]amount{}
			}
			d.slices[g.UUID][s.Index] = amount{mebibytes(s.Memory.Total), mebibytes(s.Memory.Used)}
		}
	}
	return d, nil
}

const (
	smiPatience = 10 * time.Second
	// The long answer takes about a second of CPU on machines with many cards.
	detailsEvery = 5 * time.Minute
)

// nvidia asks the driver's tool, and remembers its last good answer.
type nvidia struct {
	patience time.Duration // for each answer

	fields  []string // those that this driver knows
	known   []factory.GPU
	driver  string
	details details
	asked   time.Time // for details
	listing string    // that details belong to
}

// look lists the devices. A machine without the tool has none, and that is no error.
func (n *nvidia) look(ctx context.Context, mem memory) (gpus []factory.GPU, warnings []string) {
	if n.fields == nil {
		n.fields = slices.Clone(queryFields)
	}
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		return nil, nil
	}
	text, err := n.query(ctx)
	var late *hanging
	switch {
	case errors.As(err, &late):
		// It runs and does not answer: what is there is still there, only figures are old.
		return withoutFigures(n.known), []string{late.Error() + " GPU figures are missing until it does. A card that hangs is the usual cause: look at dmesg for NVRM errors."}
	case err != nil:
		why := "nvidia-smi does not work: " + err.Error() + " Install the NVIDIA driver again, or restart the machine when it was just updated."
		gpus = withoutFigures(n.known)
		for i := range gpus {
			gpus[i].Unhealthy = why
		}
		return gpus, []string{why}
	}
	cards, complaints := parseQuery(text, n.fields)
	for _, c := range complaints {
		warnings = append(warnings, "nvidia-smi says: "+strings.TrimSuffix(c, ".")+".")
	}
	for _, c := range cards {
		n.driver = c.said("driver_version")
	}
	n.known = assemble(cards, n.parts(ctx, cards, &warnings), n.details, mem)
	return n.known, warnings
}

// withoutFigures are devices as they were seen last. Figures of then would be drawn as
// those of now.
func withoutFigures(known []factory.GPU) []factory.GPU {
	gpus := slices.Clone(known)
	for i := range gpus {
		g := &gpus[i]
		g.UsedBytes, g.Utilisation, g.Temperature, g.PowerWatts, g.ClockMHz = nil, nil, nil, nil, nil
	}
	return gpus
}

// parts lists the slices, and asks for details when the cards or slices changed.
func (n *nvidia) parts(ctx context.Context, cards []card, warnings *[]string) map[string][]slice {
	if len(cards) == 0 {
		return nil
	}
	var of map[string][]slice
	if slices.ContainsFunc(cards, func(c card) bool { return strings.EqualFold(c["mig.mode.current"], "Enabled") }) || n.listing == "" {
		listing, err := n.run(ctx, "-L")
		if err != nil {
			*warnings = append(*warnings, "MIG slices could not be listed: "+err.Error())
			return nil
		}
		_, of = parseList(listing)
		if listing != n.listing {
			n.listing, n.asked = listing, time.Time{}
		}
	}
	if time.Since(n.asked) > detailsEvery {
		n.asked = time.Now()
		text, err := n.run(ctx, "-q", "-x")
		if err == nil {
			n.details, err = parseDetails(text)
		}
		if err != nil {
			*warnings = append(*warnings, "The CUDA version could not be read: "+err.Error())
		}
	}
	return of
}

var unknownField = regexp.MustCompile(`Field "([^"]+)" is not a valid field`)

// query asks for every field that the driver knows: older ones refuse all for one.
func (n *nvidia) query(ctx context.Context) (string, error) {
	for {
		text, err := n.run(ctx, "--query-gpu="+strings.Join(n.fields, ","), "--format=csv,noheader,nounits")
		if err == nil {
			return text, nil
		}
		m := unknownField.FindStringSubmatch(err.Error())
		if m == nil {
			return "", err
		}
		without := slices.DeleteFunc(slices.Clone(n.fields), func(f string) bool { return f == m[1] })
		if len(without) == len(n.fields) {
			return "", err
		}
		n.fields = without
	}
}

// hanging is a tool that does not answer.
type hanging struct{ after time.Duration }

func (h *hanging) Error() string { return fmt.Sprintf("nvidia-smi has not answered for %s.", h.after) }

func (n *nvidia) run(ctx context.Context, args ...string) (string, error) {
	patience := n.patience
	if patience == 0 {
		patience = smiPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", args...)
	// A process that waits for the driver cannot be killed; it is left behind.
	cmd.WaitDelay = time.Second
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		return "", &hanging{patience}
	}
	text := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	if text == "" && errors.As(err, &exit) {
		text = strings.TrimSpace(string(exit.Stderr))
	}
	if text == "" {
		text = err.Error()
	}
	first, _, _ := strings.Cut(text, "\n")
	if strings.Contains(first, "No devices were found") {
		return "", nil // the tool is there and no card: a machine whose card was taken out
	}
	return "", errors.New(strings.TrimSuffix(first, ".") + ".")
}
