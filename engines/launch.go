package engines

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"tokenfactory/factory"
)

// Launch is the command line and the environment that start a replica as a process
// listening on host and port. The environment is what to set beside the agent's
// own. Secrets are only ever in the environment: command lines can be read by
// everybody on the machine. argv is nil for engines that come as images only.
func (e Engine) Launch(spec factory.ReplicaSpec, host string, port int) (argv []string, env []string) {
	if len(e.Command) == 0 {
		return nil, nil
	}
	argv = append(slices.Clone(e.Command), e.arguments(spec, host, port)...)
	// Last, so that what an operator wrote wins over what we chose.
	argv = append(argv, spec.Args...)

	// Devices are named by UUID: the numbers of nvidia-smi and of the CUDA runtime
	// need not agree. An empty list hides all cards from a replica that was given none.
	env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(spec.GPUUUIDs, ","))
	if len(spec.GPUUUIDs) > 0 {
		env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	}
	env = append(env, e.env...)
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		env = append(env, name+"="+spec.Env[name])
	}
	return argv, env
}

// servedName is the name an engine answers to.
func servedName(spec factory.ReplicaSpec) string {
	if spec.ServedName != "" {
		return spec.ServedName
	}
	return spec.Location
}

// flags builds a command line; a flag with a zero value is left out.
type flags []string

func (f *flags) text(name, value string) {
	if value != "" {
		*f = append(*f, name, value)
	}
}

func (f *flags) number(name string, value int) {
	if value > 0 {
		*f = append(*f, name, strconv.Itoa(value))
	}
}

func (f *flags) when(cond bool, words ...string) {
	if cond {
		*f = append(*f, words...)
	}
}

func (f *flags) listen(host string, port int) {
	*f = append(*f, "--host", host, "--port", strconv.Itoa(port))
}
