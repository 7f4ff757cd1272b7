package engines

import (
	"net"
	"strconv"

	"tokenfactory/factory"
)

var simulator = Engine{
	Name:         "sim",
	Title:        "Simulator",
	About:        "Makes text up at set speeds, without weights or a GPU: for demos, tests and trying limits.",
	Port:         8000,
	HealthPath:   "/health",
	Paths:        []string{PathChat, PathCompletions, PathEmbeddings},
	MetricsPath:  "/metrics",
	Command:      []string{"tokenfactory", "sim-engine"},
	Install:      "Put the tokenfactory program beside the agent or on its PATH.",
	RunningUsage: "continuous_usage_stats",
	Simulated:    true,
	arguments:    simulatorArguments,
	mapping:      vllmMapping, // it speaks vLLM's names
}

func simulatorArguments(spec factory.ReplicaSpec, host string, port int) []string {
	f := flags{"--listen", net.JoinHostPort(host, strconv.Itoa(port))}
	f.text("--model", servedName(spec))
	f.number("--context-length", spec.ContextLength)
	f.when(!spec.PrefixCaching, "--no-prefix-caching")
	return f
}
