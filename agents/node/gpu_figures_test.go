package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestAGPUsFiguresAreRecordedUnderItsMachine(t *testing.T) {
	tool(t, oneCard)
	m := machine{root: "/", recorder: &metrics.Recorder{}, checks: []factory.EngineCheck{}, checked: time.Now()}
	m.look(context.Background())
	if b := m.recorder.Flush(); len(b) != 0 {
		t.Errorf("recorded before the machine has joined: %+v", b)
	}
	m.joined("n")
	m.look(context.Background())
	got := byMetric(t, m.recorder.Flush())
	for name, want := range map[metrics.Name]float64{
		metrics.GPUUtilisation: 0.07, metrics.GPUMemory: 100.0 / 23034, metrics.GPUTemperature: 40, metrics.GPUPower: 30.5, metrics.GPUClock: 300,
	} {
		if b := got[name]; b.Sum != want || b.Count != 1 || b.DeploymentID != "n" || b.ReplicaID != "GPU-a" {
			t.Errorf("%s: %+v, want %v", name, b, want)
		}
	}
	is(t, "highest clock", m.hardware().GPUs[0].ClockMaxMHz, 2040.0)

	// A tool that stops working says nothing of how its cards are now.
	tool(t, "echo 'it has failed'; exit 9\n")
	m.look(context.Background())
	if b := m.recorder.Flush(); len(b) != 0 || len(m.hardware().GPUs) != 1 {
		t.Errorf("old figures were recorded: %+v", b)
	}
}

func TestWhatAGPUDoesNotSayIsNotRecorded(t *testing.T) {
	var r metrics.Recorder
	zero, used := 0.0, int64(5)
	measureGPUs(&r, time.Now(), "n", []factory.GPU{{UUID: "GPU-a", Utilisation: &zero, UsedBytes: &used}})
	if b := r.Flush(); len(b) != 1 || b[0].Name != metrics.GPUUtilisation || b[0].Sum != 0 {
		t.Errorf("%+v", b)
	}
}

func TestADescriptionMayChangeWhileTheAgentRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("arch: arm64\ngpus: [{uuid: GPU-a, name: NVIDIA GB10, temperature: 60, clock_mhz: 2400}]\n")
	d, err := readDescribed(file)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{described: &d, file: file, recorder: &metrics.Recorder{}, node: "n", checks: []factory.EngineCheck{}, checked: time.Now()}
	look := func() factory.Hardware { m.look(context.Background()); return m.hardware() }
	is(t, "temperature", look().GPUs[0].Temperature, 60.0)

	write("arch: arm64\ngpus: [{uuid: GPU-a, name: NVIDIA GB10, temperature: 92, clock_mhz: 800}]\n")
	h := look()
	is(t, "hot", h.GPUs[0].Temperature, 92.0)
	is(t, "slowed down", h.GPUs[0].ClockMHz, 800.0)
	if b := byMetric(t, m.recorder.Flush())[metrics.GPUTemperature]; b.Max != 92 {
		t.Errorf("%+v", b)
	}

	write("arch: arm64\ngpus: [{uuid: GPU-a, temprature: 99}]\n")
	for range 2 {
		h = look()
		is(t, "the last good one", h.GPUs[0].Temperature, 92.0)
		if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "temprature") {
			t.Errorf("warnings %q", h.Warnings)
		}
	}
	write("arch: arm64\ngpus: [{uuid: GPU-a, name: NVIDIA GB10, temperature: 61}]\n")
	if h = look(); len(h.Warnings) != 0 || *h.GPUs[0].Temperature != 61 {
		t.Errorf("%+v", h)
	}
}
