package clusters

import (
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Registration is the page on which a machine is registered.
type Registration struct {
	factory.Cluster
	Token factory.JoinToken
	// Command is what to run; empty once it has been shown.
	Command string
	Server  string
	// Joined are the machines that have called in since the token was made.
	Joined []Machine
	Now    time.Time
}

// Expired reports whether nobody can join with the token any more.
func (r Registration) Expired() bool { return r.Now.After(r.Token.ExpiresAt) }

// step is one line of the checklist.
type step struct {
	tone        ui.Tone
	title, text string
}

// waiting is the checklist before a machine has called in.
func (r Registration) waiting() []step {
	first := step{ui.Progress, "Called in", "Waiting for the machine. Nothing yet? From the machine, “curl -I " + r.Server + "” must get an answer: if it does not, a name, route or firewall is in the way. The agent prints why it is refused."}
	if r.Expired() {
		first = step{ui.Bad, "Called in", "The token has expired before any machine used it. Make a new one."}
	}
	return []step{
		first,
		{ui.Plain, "Identity", "Who the machine is: its name, architecture and system."},
		{ui.Plain, "Hardware", "Processor, memory and GPUs."},
		{ui.Plain, "Engines runnable", "Which inference engines it can start."},
	}
}

// steps is the checklist of a machine that has called in.
func (m Machine) steps() []step {
	return []step{m.calledIn(), m.identified(), m.hardware(), m.engines()}
}

func (m Machine) calledIn() step {
	if !m.Online {
		return step{ui.Bad, "Called in", "It has called in and then gone silent. See whether tokenfactory-agent still runs on it; it continues by itself."}
	}
	return step{ui.Good, "Called in", "The agent has a credential of its own now. The token is not needed on this machine any more."}
}

func (m Machine) identified() step {
	if m.Hardware.Arch == "" {
		return step{ui.Progress, "Identity", "Waiting for the first report."}
	}
	text := strings.Join(present(m.Name, m.Hardware.Arch, m.Hardware.OS, m.Hardware.Kernel), ", ") + "."
	if m.Hardware.Hostname != "" && m.Name != m.Hardware.Hostname {
		text += " Another machine is called " + m.Hardware.Hostname + " already, so this one is shown as " + m.Name + "."
	}
	if m.Skew.Abs() >= SkewShown {
		return step{ui.Warn, "Identity", text + " Its clock is " + skewText(m.Skew) + ": let it synchronise its time."}
	}
	return step{ui.Good, "Identity", text}
}

func (m Machine) hardware() step {
	h := m.Hardware
	if h.CPUCores == 0 {
		return step{ui.Progress, "Hardware", "Waiting for the first report."}
	}
	text := ui.Plural(h.CPUCores, "core") + ", " + ui.BytesText(h.MemoryBytes) + " of memory, " + gpuSummary(h) + "."
	problems := h.Warnings
	for _, g := range h.GPUs {
		if g.Unhealthy != "" {
			problems = append(problems, g.Name+": "+g.Unhealthy)
		}
	}
	if len(problems) > 0 {
		return step{ui.Warn, "Hardware", text + " " + strings.Join(problems, " ")}
	}
	if len(h.GPUs) == 0 {
		return step{ui.Warn, "Hardware", text + " Only engines that run on the CPU can be used. If there is an NVIDIA card, “nvidia-smi” must work on the machine: install its driver."}
	}
	return step{ui.Good, "Hardware", text}
}

func (m Machine) engines() step {
	if len(m.Hardware.Engines) == 0 {
		return step{ui.Progress, "Engines runnable", "Waiting for the machine to try which engines it can start."}
	}
	var runs, real []string
	for _, c := range m.Hardware.Engines {
		if !c.OK {
			continue
		}
		runs = append(runs, strings.TrimSpace(engineTitle(c.Engine)+" "+c.Version))
		if e, ok := engines.Find(c.Engine); ok && !e.Simulated {
			real = append(real, c.Engine)
		}
	}
	switch {
	case len(runs) == 0:
		return step{ui.Bad, "Engines runnable", "None. Each line says what would help; the machine is looked at again by itself."}
	case len(real) == 0:
		return step{ui.Warn, "Engines runnable", strings.Join(runs, ", ") + ", which makes text up. Each line says what a real engine needs."}
	}
	return step{ui.Good, "Engines runnable", strings.Join(runs, ", ") + "."}
}

// Done reports whether a machine can be deployed to.
func (m Machine) Done() bool {
	return m.Online && m.engines().tone != ui.Bad && len(m.Hardware.Engines) > 0
}

func present(parts ...string) []string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
