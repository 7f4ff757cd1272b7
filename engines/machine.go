package engines

import (
	"slices"
	"strconv"
	"strings"

	"tokenfactory/factory"
)

// RunsOn says whether a machine can run the engine under a runtime. A "no" comes with a
// sentence that says why, and what would help.
func (e Engine) RunsOn(h factory.Hardware, runtime string) (ok bool, reason string) {
	if reason := e.lacksDevice(h); reason != "" {
		return false, reason
	}
	switch runtime {
	case RuntimeProcess:
		reason = e.lacksProcess(h)
	case RuntimeContainer, RuntimeKubernetes:
		_, reason = e.ImageFor(h)
	default:
		reason = "This machine's agent reports the runtime " + strconv.Quote(runtime) +
			", which is not one of process, container and kubernetes. Update the agent."
	}
	return reason == "", reason
}

// ImageFor is the first image that fits the machine. Without one the second result says
// why; it is empty otherwise.
func (e Engine) ImageFor(h factory.Hardware) (Image, string) {
	if len(e.Images) == 0 {
		return Image{}, e.Title + " has no container image. Use a machine whose agent has the process runtime."
	}
	gpus := h.AllocatableGPUs()
	var archs []string
	var tooOld *Image
	for _, img := range e.Images {
		if !slices.Contains(archs, img.Arch) {
			archs = append(archs, img.Arch)
		}
		if img.Arch != h.Arch || (img.Device != "" && !hasDevice(gpus, img.Device)) || (img.CUDA != "" && len(gpus) == 0) {
			continue
		}
		if !driverHas(h, img.CUDA) {
			if tooOld == nil {
				tooOld = &img
			}
			continue
		}
		return img, ""
	}
	switch {
	case tooOld != nil:
		return Image{}, "The image " + tooOld.Ref + " needs CUDA " + tooOld.CUDA + ", and this machine's NVIDIA driver supports CUDA " +
			h.CUDA + " at most. Update the driver."
	case slices.Contains(archs, h.Arch):
		return Image{}, "The images of " + e.Title + " for " + h.Arch + " need a GPU that this machine does not have. Choose another machine or another engine."
	}
	return Image{}, e.Title + " has images for " + strings.Join(archs, " and ") + " only (" + e.Images[0].Ref + "), and this machine is " +
		orUnknown(h.Arch) + ". Choose a machine of that architecture, or an engine with an image for this one."
}

func (e Engine) lacksProcess(h factory.Hardware) string {
	if e.Executable() == "" {
		return e.Title + " comes as a container image and cannot be started as a process. Use a machine whose agent has the container or kubernetes runtime."
	}
	check, reported := h.Engine(e.Name)
	switch {
	case !reported:
		return "The agent has not reported whether " + e.Title + " is installed on this machine. Wait for its next report, or update the agent."
	case check.OK:
		return ""
	case check.Reason != "":
		return check.Reason
	}
	return e.NotInstalled()
}

// NotInstalled is the sentence for a machine on which the executable was not found, or
// the probe failed.
func (e Engine) NotInstalled() string {
	if len(e.Probe) > 0 {
		return e.Title + " is not installed on this machine. " + e.Install
	}
	return e.Title + " is not installed on this machine: there is no command " + e.Executable() + " in the agent's PATH. " + e.Install
}

func (e Engine) lacksDevice(h factory.Hardware) string {
	gpus := h.AllocatableGPUs()
	if len(gpus) == 0 {
		if !e.NeedsGPU {
			return ""
		}
		return e.Title + " needs an NVIDIA GPU, and " + whyNoGPU(h) + " Use a machine with a free GPU, or llama.cpp, which also runs on CPUs."
	}
	tooOld := 0
	for _, g := range gpus {
		// GB10 came with CUDA 13: older runtimes have no code for it and fail at the first kernel.
		if g.ComputeCap == "12.1" && e.NeedsGPU && !driverHas(h, "13") {
			return "The " + g.Name + " needs CUDA 13, and this machine's NVIDIA driver supports CUDA " + h.CUDA + " at most. Update the driver to 580 or newer."
		}
		if g.ComputeCap != "" && versionLess(g.ComputeCap, e.MinComputeCap) {
			tooOld++
		}
	}
	if e.NeedsGPU && tooOld == len(gpus) {
		return e.Title + " needs compute capability " + e.MinComputeCap + " or newer, and the " + gpus[0].Name + " here has " + gpus[0].ComputeCap +
			". Use a newer GPU, or llama.cpp, which runs on older ones."
	}
	return ""
}

func whyNoGPU(h factory.Hardware) string {
	if len(h.GPUs) == 0 {
		return "this machine has none."
	}
	for _, g := range h.GPUs {
		if g.Unhealthy != "" {
			return "the " + g.Name + " of this machine cannot be used: " + strings.TrimSuffix(g.Unhealthy, ".") + "."
		}
	}
	return "the cards of this machine are set up for MIG without any slice."
}

func hasDevice(gpus []factory.GPU, part string) bool {
	return slices.ContainsFunc(gpus, func(g factory.GPU) bool { return strings.Contains(g.Name, part) })
}

// driverHas compares major versions only: within one, any driver runs any runtime. A
// machine that does not say is let through, because unknown is not "too old".
func driverHas(h factory.Hardware, cuda string) bool {
	if cuda == "" || h.CUDA == "" {
		return true
	}
	have, _, _ := strings.Cut(h.CUDA, ".")
	want, _, _ := strings.Cut(cuda, ".")
	return !versionLess(have, want)
}

// versionLess compares dotted numbers; an unreadable part counts as zero.
func versionLess(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if x != y {
			return x < y
		}
	}
	return false
}

func orUnknown(s string) string {
	if s == "" {
		return "of an unknown architecture"
	}
	return s
}
