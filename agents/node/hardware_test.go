package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

func fixture(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var spark = parseMeminfo("MemTotal: 125829120 kB\nMemFree: 100 kB\nMemAvailable: 94371840 kB\n")

func is[T comparable](t *testing.T, what string, got *T, want T) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is not reported, want %v", what, want)
	} else if *got != want {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

// The unified-memory GPU answers N/A; its memory is the machine's.
func TestAI01DGXSparkReportsNoGPUMemory(t *testing.T) {
	cards, complaints := parseQuery("0, NVIDIA GB10, GPU-00000000-0000-0000-0000-000000000001, [N/A], [N/A], 3 %, 41\n",
		[]string{"index", "name", "uuid", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu"})
	gpus := assemble(cards, nil, details{}, spark)
	if len(gpus) != 1 || len(complaints) != 0 {
		t.Fatalf("%+v, %q", gpus, complaints)
	}
	g := gpus[0]
	is(t, "total", g.MemoryBytes, int64(128_849_018_880))
	is(t, "used", g.UsedBytes, int64(32_212_254_720))
	is(t, "utilisation", g.Utilisation, 3.0)
	is(t, "temperature", g.Temperature, 41.0)
	if !g.Unified || g.Unhealthy != "" || !g.Allocatable() || g.PowerWatts != nil {
		t.Errorf("%+v", g)
	}
	if share := float64(*g.UsedBytes) / float64(*g.MemoryBytes); share != 0.25 {
		t.Errorf("share in use %v", share)
	}
	if goArch("aarch64") != "arm64" {
		t.Error("aarch64 is not arm64")
	}
}

func TestAI01EveryCaptureOfASparkIsUnderstood(t *testing.T) {
	cards, _ := parseQuery(fixture(t, "nvidia-smi-dgx-spark-query.reconstructed.csv"), queryFields)
	g := assemble(cards, nil, details{}, spark)[0]
	is(t, "utilisation", g.Utilisation, 96.0)
	is(t, "power", g.PowerWatts, 41.27)
	is(t, "total", g.MemoryBytes, spark.total)
	if g.BusID != "0000000F:01:00.0" || g.ComputeCap != "12.1" || cards[0].said("driver_version") != "580.126.09" || g.Partitioned || g.Unhealthy != "" {
		t.Errorf("%+v", g)
	}
	for _, file := range []string{"nvidia-smi-dgx-spark.csv", "nvidia-smi-dgx-spark-loop.csv", "nvidia-smi-dgx-spark-memory.csv"} {
		cards, complaints := parseQuery(fixture(t, file), queryFields)
		if len(cards) == 0 || len(complaints) != 0 {
			t.Errorf("%s: %v, %q", file, cards, complaints)
		}
		for _, c := range cards {
			if mebibytes(c["memory.used"]) != nil {
				t.Errorf("%s: N/A is an amount of memory", file)
			}
		}
	}
	if d, err := parseDetails(fixture(t, "nvidia-smi-dgx-spark.partial.xml")); err != nil || d.cuda != "" {
		t.Errorf("%+v, %v", d, err)
	}
}

// On a normal card N/A means unhealthy, not "all of RAM".
func TestAI01ANormalCardWithoutMemoryIsUnhealthy(t *testing.T) {
	for _, answer := range []string{"[N/A]", "N/A", "[Unknown Error]", "[Not Supported]", "[Insufficient Permissions]", "[GPU requires reset]"} {
		cards, _ := parseQuery("0, GPU-a, NVIDIA H100 80GB HBM3, "+answer+", "+answer, []string{"index", "uuid", "name", "memory.total", "memory.used"})
		g := assemble(cards, nil, details{}, spark)[0]
		if g.MemoryBytes != nil || g.UsedBytes != nil || g.Unified || g.Unhealthy == "" || g.Allocatable() {
			t.Errorf("%s: %+v", answer, g)
		}
	}
	for name, want := range map[string]bool{
		"NVIDIA GB10": true, "Orin (nvgpu)": true, "NVIDIA Thor": true,
		"NVIDIA GB200": false, "NVIDIA GH200 480GB": false, "NVIDIA GB100": false, "NVIDIA L4": false,
	} {
		if isUnified(name) != want {
			t.Errorf("%s unified: %v", name, !want)
		}
	}
}

const migListing = `GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-aaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 2g.10gb     Device  1: (UUID: MIG-2)
  MIG 1g.5gb      Device  2: (UUID: MIG-3)
GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-bbb)
`

func TestAI02MIGSlicesAndTheirParent(t *testing.T) {
	fields := []string{"index", "uuid", "name", "pci.bus_id", "memory.total", "mig.mode.current"}
	// The parent's figures may be kept from us; the slices are good all the same.
	cards, _ := parseQuery("0, GPU-aaa, NVIDIA A100-PCIE-40GB, 00000000:01:00.0, [Insufficient Permissions], Enabled\n"+
		"1, GPU-bbb, NVIDIA A100-PCIE-40GB, 00000000:02:00.0, 40960, Disabled\n", fields)
	listed, of := parseList(migListing)
	if len(listed) != 2 {
		t.Errorf("cards listed: %v", listed)
	}
	h := factory.Hardware{GPUs: assemble(cards, of, details{}, memory{})}
	if h.PhysicalGPUs() != 2 {
		t.Errorf("%d physical GPUs", h.PhysicalGPUs())
	}
	var profiles, offered []string
	for _, g := range h.GPUs {
		if g.MIGProfile != "" {
			profiles = append(profiles, g.MIGProfile)
			if g.ParentUUID != "GPU-aaa" {
				t.Errorf("%+v", g)
			}
		}
	}
	for _, g := range h.AllocatableGPUs() {
		offered = append(offered, g.UUID)
	}
	if !slices.Equal(profiles, []string{"3g.20gb", "2g.10gb", "1g.5gb"}) || !slices.Equal(offered, []string{"MIG-1", "MIG-2", "MIG-3", "GPU-bbb"}) {
		t.Errorf("profiles %v, offered %v", profiles, offered)
	}
}

func TestAI02SlicesHaveMemoryOfTheirOwn(t *testing.T) {
	d, err := parseDetails(fixture(t, "nvidia-smi-a100-mig.xml"))
	if err != nil || d.cuda != "12.2" {
		t.Fatalf("%q, %v", d.cuda, err)
	}
	const parent = "GPU-00000000-0000-0000-0000-000000000001"
	cards := []card{{"index": "0", "uuid": parent, "name": "NVIDIA A100-SXM4-80GB", "memory.total": "81920", "mig.mode.current": "Enabled"}}
	gpus := assemble(cards, map[string][]slice{parent: {{"MIG-x", "1g.20gb", 3}}}, d, memory{})
	is(t, "slice's memory", gpus[1].MemoryBytes, int64(19968<<20))
	is(t, "slice's use", gpus[1].UsedBytes, int64(12<<20))
	if gpus[1].Utilisation != nil || gpus[0].Allocatable() || gpus[1].Name == gpus[0].Name {
		t.Errorf("%+v", gpus)
	}
	for _, file := range []string{"nvidia-smi-a10g.xml", "nvidia-smi-rtx4000-ada.xml"} {
		if d, err := parseDetails(fixture(t, file)); err != nil || d.cuda == "" {
			t.Errorf("%s: %q, %v", file, d.cuda, err)
		}
	}
	if _, err := parseDetails("<nvidia_smi_log><gpu>"); err == nil {
		t.Error("a cut answer was understood")
	}
}

// The list is by bus, whatever order the driver's tool has.
func TestAI07GPUNumbersOfToolAndRuntimeDiffer(t *testing.T) {
	fields := []string{"index", "uuid", "name", "pci.bus_id", "memory.total", "utilization.gpu"}
	lines := []string{"0, GPU-aaa, Card, 00000000:41:00.0, 1024, 87", "1, GPU-bbb, Card, 00000000:01:00.0, 1024, 0"}
	for range 2 {
		cards, _ := parseQuery(strings.Join(lines, "\n"), fields)
		gpus := assemble(cards, nil, details{}, memory{})
		if gpus[0].UUID != "GPU-bbb" || gpus[1].UUID != "GPU-aaa" {
			t.Errorf("order %s, %s", gpus[0].UUID, gpus[1].UUID)
		}
		is(t, "load of GPU-aaa", gpus[1].Utilisation, 87)
		slices.Reverse(lines) // the tool may change its mind at the next boot
	}
	// Domains are written with four or eight digits, and numbers in hexadecimal.
	cards := []card{{"uuid": "c", "pci.bus_id": "0000000F:01:00.0"}, {"uuid": "b", "pci.bus_id": "0000:0A:00.0"}, {"uuid": "a", "pci.bus_id": "00000000:09:00.0"}}
	gpus := assemble(cards, nil, details{}, memory{})
	if gpus[0].UUID+gpus[1].UUID+gpus[2].UUID != "abc" {
		t.Errorf("%+v", gpus)
	}
}

func TestAI08EqualCardsStayApart(t *testing.T) {
	cards, _ := parseQuery("0, u1, Card-X, 1024\n1, u2, Card-X, 1024\n2, u3, Card-Y, 1024\n", []string{"index", "uuid", "name", "memory.total"})
	count := map[string]int{}
	var uuids []string
	for _, g := range assemble(cards, nil, details{}, memory{}) {
		count[g.Name]++
		uuids = append(uuids, g.UUID)
	}
	if !slices.Equal(uuids, []string{"u1", "u2", "u3"}) || count["Card-X"] != 2 || count["Card-Y"] != 1 {
		t.Errorf("%v, %v", uuids, count)
	}
}

// tool puts an nvidia-smi with these lines of shell on the PATH.
func tool(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestAMachineWithoutTheToolHasNoGPUsAndNoError(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if gpus, warnings := (&nvidia{}).look(context.Background(), memory{}); len(gpus) != 0 || len(warnings) != 0 {
		t.Errorf("%v, %q", gpus, warnings)
	}
}

const oneCard = `case "$1" in
-L) echo 'GPU 0: NVIDIA L4 (UUID: GPU-a)';;
-q) echo '<nvidia_smi_log><cuda_version>13.0</cuda_version></nvidia_smi_log>';;
*) echo '0, GPU-a, NVIDIA L4, 00000000:01:00.0, 580.1, 8.9, 23034, 100, 22934, 7, 0, 40, 30.5, 72, 300, 2040, [N/A]'; echo 'Unable to determine the device handle for GPU1: GPU is lost';;
esac
`

func TestAToolThatHangsLosesNoGPU(t *testing.T) {
	n := &nvidia{patience: 5 * time.Second}
	tool(t, oneCard)
	gpus, warnings := n.look(context.Background(), memory{})
	if len(gpus) != 1 || n.driver != "580.1" || n.details.cuda != "13.0" || len(warnings) != 1 || !strings.Contains(warnings[0], "GPU is lost") {
		t.Fatalf("%+v, %q, %+v", gpus, warnings, n)
	}
	n.patience = 100 * time.Millisecond
	tool(t, "sleep 20\n")
	began := time.Now()
	gpus, warnings = n.look(context.Background(), memory{})
	if len(gpus) != 1 || !gpus[0].Allocatable() || gpus[0].Utilisation != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "not answered") {
		t.Errorf("%+v, %q", gpus, warnings)
	}
	if time.Since(began) > 10*time.Second {
		t.Error("the agent hung with it")
	}
	n.patience = 5 * time.Second // this one answers
	tool(t, "echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure it runs.\"; exit 9\n")
	gpus, warnings = n.look(context.Background(), memory{})
	if len(gpus) != 1 || gpus[0].Allocatable() || len(warnings) != 1 || !strings.Contains(warnings[0], "communicate with the NVIDIA driver") {
		t.Errorf("%+v, %q", gpus, warnings)
	}
}

func TestAnOldDriverIsAskedForWhatItKnows(t *testing.T) {
	tool(t, `case "$1" in
-L|-q) exit 0;;
*compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
*) echo '0, GPU-a, Tesla K80, 00000000:01:00.0, 418.1, 11441, 0, 11441, 0, 0, 30, 26.1, 149, 300, 2040, [N/A]';;
esac
`)
	gpus, _ := (&nvidia{}).look(context.Background(), memory{})
	if len(gpus) != 1 || gpus[0].ComputeCap != "" {
		t.Fatalf("%+v", gpus)
	}
	is(t, "memory", gpus[0].MemoryBytes, int64(11441<<20))
}

func TestCardsFromRealCaptures(t *testing.T) {
	cards, _ := parseQuery(fixture(t, "nvidia-smi-rtx2080-query.csv"), queryFields)
	if g := cards[0].gpu(memory{}); g.Name != "NVIDIA GeForce RTX 2080 SUPER" || g.ComputeCap != "7.5" || g.UsedBytes == nil || *g.UsedBytes != 575<<20 {
		t.Errorf("%+v", g)
	}
}

func TestProcessorsAreNamedOnBothArchitectures(t *testing.T) {
	for text, want := range map[string]struct {
		model string
		cores int
	}{
		"processor\t: 0\nmodel name\t: AMD EPYC  9654\nphysical id\t: 0\ncore id\t: 0\n\nprocessor\t: 1\nmodel name\t: AMD EPYC  9654\nphysical id\t: 0\ncore id\t: 0\n\n": {"AMD EPYC 9654", 1},
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd85\n":                                       {"Cortex-A725 (1) + Cortex-X925 (1)", 2},
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n":                                                                                                     {"Neoverse-V2", 1},
		"processor\t: 0\nCPU implementer\t: 0x99\nCPU part\t: 0x001\n":                                                                                                     {"Arm core 0x99/0x001", 1},
		"": {"", 0},
	} {
		if model, cores := parseCPU(text); model != want.model || cores != want.cores {
			t.Errorf("%q, %d; want %+v", model, cores, want)
		}
	}
	if got := parseOS("NAME=x\nPRETTY_NAME=\"Ubuntu 24.04.2 LTS\"\n"); got != "Ubuntu 24.04.2 LTS" {
		t.Errorf("%q", got)
	}
}

func TestThisMachineIsRead(t *testing.T) {
	h, mem := readSystem("/")
	if h.Hostname == "" || h.Kernel == "" || h.OS == "" || h.CPUCores < 1 || h.MemoryBytes < 1<<28 || mem.available < 1 || (h.Arch != "amd64" && h.Arch != "arm64") {
		t.Errorf("%+v", h)
	}
}

func TestIdentityIsTheMachines(t *testing.T) {
	root, data := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(gpus ...string) marks {
		var list []factory.GPU
		for _, u := range gpus {
			list = append(list, factory.GPU{UUID: u})
		}
		m, err := readMarks(root, data, list)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	salted := read()
	if salted.Salt == "" || salted.identity() != read().identity() {
		t.Errorf("without marks: %+v", salted)
	}
	write("etc/machine-id", strings.Repeat("a", 32)+"\n")
	first := read("GPU-1")
	if first.Salt != "" || first.identity() == salted.identity() || first.identity() != read("GPU-2").identity() {
		t.Errorf("%+v", first)
	}
	if same, _ := first.same(read("GPU-1", "GPU-2")); !same {
		t.Error("a second card makes another machine")
	}
	if same, what := first.same(read("GPU-9")); same || what != "GPUs" {
		t.Errorf("a copied disk is taken for the machine: %q", what)
	}
	write("sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000000\n")
	if read().Board != "" {
		t.Error("a number that is none tells machines apart")
	}
	write("sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8052-b4c04f4e4d32\n")
	board := read()
	write("sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8052-b4c04f4e4d33\n")
	if same, what := board.same(read()); same || what != "board" {
		t.Errorf("%v %q", same, what)
	}
}

func TestADescribedMachineIsTakenAsWritten(t *testing.T) {
	d, err := parseDescribed([]byte("identity: x\nhostname: spark\narch: aarch64\ngpus:\n  - {uuid: GPU-a, name: NVIDIA GB10, unified: true, memory_bytes: 5, utilisation: 3}\n"))
	if err != nil || d.Hostname != "spark" || d.Arch != "arm64" || len(d.GPUs) != 1 || !d.GPUs[0].Unified || *d.GPUs[0].MemoryBytes != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	for what, bad := range map[string]string{
		"misspelt": "arch: arm64\nhostnam: x\n", "no arch": "hostname: x\n", "not YAML": "\t{", "no UUID": "arch: arm64\ngpus: [{name: x}]\n",
		"equal UUIDs": "arch: arm64\ngpus: [{uuid: x}, {uuid: x}]\n",
	} {
		if _, err := parseDescribed([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	one, err1 := described{}.identity(t.TempDir())
	two, err2 := described{}.identity(t.TempDir())
	if one == two || err1 != nil || err2 != nil {
		t.Error("two described machines are one")
	}
}

func TestEngineChecksAreReal(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"llama-server": "#!/bin/sh\necho 'version: b4567 (abc)'\n", "python3": "#!/bin/sh\necho 'PackageNotFoundError: sglang' >&2\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	found := map[string]factory.EngineCheck{}
	for _, c := range new(checker).all(context.Background()) {
		found[c.Engine] = c
	}
	if c := found["llamacpp"]; !c.OK || c.Version != "b4567" {
		t.Errorf("%+v", c)
	}
	for engine, want := range map[string]string{"sglang": "PackageNotFoundError", "vllm": "pip install vllm", "nim": "container", "sim": "tokenfactory"} {
		if c := found[engine]; c.OK || !strings.Contains(c.Reason, want) {
			t.Errorf("%+v, without %q", c, want)
		}
	}
}
