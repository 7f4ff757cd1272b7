package engines

import (
	"slices"
	"strings"
	"testing"

	"tokenfactory/factory"
)

var (
	spark = factory.Hardware{Arch: "arm64", CUDA: "13.0", Driver: "580.95", GPUs: []factory.GPU{
		{UUID: "GPU-spark", Name: "NVIDIA GB10", ComputeCap: "12.1", Unified: true}}}
	h100 = factory.Hardware{Arch: "amd64", CUDA: "12.4", GPUs: []factory.GPU{
		{UUID: "GPU-a", Name: "NVIDIA H100 80GB HBM3", ComputeCap: "9.0"}, {UUID: "GPU-b", Name: "NVIDIA H100 80GB HBM3", ComputeCap: "9.0"}}}
	cpu = factory.Hardware{Arch: "amd64"}
)

func with(h factory.Hardware, checks ...factory.EngineCheck) factory.Hardware {
	h.Engines = checks
	return h
}

func TestCatalogueIsCompleteAndUnambiguous(t *testing.T) {
	var names []string
	for _, e := range Catalogue {
		names = append(names, e.Name)
		if e.Title == "" || e.About == "" || e.Port == 0 || e.HealthPath == "" || e.MetricsPath == "" {
			t.Errorf("%s lacks a field: %+v", e.Name, e)
		}
		if !e.Offers(PathChat) || !e.Offers(PathCompletions) || e.Offers("/v1/nothing") {
			t.Errorf("%s offers %v", e.Name, e.Paths)
		}
		if len(e.mapping.all()) == 0 || len(e.mapping.prefixes) == 0 {
			t.Errorf("%s has no metrics", e.Name)
		}
		if len(e.Command) > 0 && (e.arguments == nil || e.Install == "") {
			t.Errorf("%s is a process without arguments or help to install it", e.Name)
		}
		if !e.Simulated && len(e.Sources) == 0 {
			t.Errorf("%s loads weights from nowhere", e.Name)
		}
		for _, img := range e.Images {
			if img.Arch != "amd64" && img.Arch != "arm64" {
				t.Errorf("%s: image %s has architecture %q", e.Name, img.Ref, img.Arch)
			}
		}
	}
	if want := []string{"vllm", "sglang", "nim", "dynamo", "trtllm", "llamacpp", "sim"}; !slices.Equal(names, want) {
		t.Errorf("catalogue %v, want %v", names, want)
	}
}

func TestUnknownEngineIsNotSomeOther(t *testing.T) {
	for _, name := range []string{"", "vLLM", "vllm ", "tgi", "ollama"} {
		if e, ok := Find(name); ok {
			t.Errorf("%q found %s", name, e.Name)
		}
	}
	for _, e := range Catalogue {
		if found, ok := Find(e.Name); !ok || found.Name != e.Name {
			t.Errorf("%s is not found", e.Name)
		}
	}
}

func TestLaunchCommandLines(t *testing.T) {
	for _, c := range []struct {
		engine string
		spec   factory.ReplicaSpec
		want   string
	}{
		{"vllm", factory.ReplicaSpec{Source: "huggingface", Location: "Qwen/Qwen3-8B", ServedName: "qwen", ContextLength: 8192, PrefixCaching: true, GPUUUIDs: []string{"GPU-a", "GPU-b"}, Args: []string{"--enforce-eager"}},
			"vllm serve Qwen/Qwen3-8B --served-model-name qwen --host 10.0.0.1 --port 9001 --max-model-len 8192 --tensor-parallel-size 2 --enable-prefix-caching --enable-prompt-tokens-details --enforce-eager"},
		{"vllm", factory.ReplicaSpec{Source: "path", Location: "/models/q", Unified: true, GPUUUIDs: []string{"GPU-a"}},
			"vllm serve /models/q --served-model-name /models/q --host 10.0.0.1 --port 9001 --gpu-memory-utilization 0.85 --no-enable-prefix-caching --enable-prompt-tokens-details"},
		{"vllm", factory.ReplicaSpec{Source: "object", Location: "s3://b/m", ServedName: "e", Embedding: true, GPUUUIDs: []string{"GPU-a"}},
			"vllm serve s3://b/m --served-model-name e --host 10.0.0.1 --port 9001 --load-format runai_streamer"},
		{"sglang", factory.ReplicaSpec{Source: "huggingface", Location: "Qwen/Qwen3-8B", ServedName: "qwen", ContextLength: 8192, GPUUUIDs: []string{"GPU-a", "GPU-b"}, Unified: true},
			"python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --served-model-name qwen --host 10.0.0.1 --port 9001 --enable-metrics --enable-cache-report --context-length 8192 --tp 2 --mem-fraction-static 0.75 --disable-radix-cache"},
		{"llamacpp", factory.ReplicaSpec{Source: "path", Location: "/m/q.gguf", ServedName: "q", ContextLength: 4096, PrefixCaching: true},
			"llama-server -m /m/q.gguf -a q --host 10.0.0.1 --port 9001 --metrics -c 4096"},
		{"llamacpp", factory.ReplicaSpec{Source: "huggingface", Location: "ggml-org/q-GGUF:Q4_K_M", ServedName: "q", GPUUUIDs: []string{"GPU-a"}, Embedding: true},
			"llama-server -hf ggml-org/q-GGUF:Q4_K_M -a q --host 10.0.0.1 --port 9001 --metrics -ngl 999 --no-cache-prompt --embeddings"},
		{"sim", factory.ReplicaSpec{ServedName: "demo", Location: "Qwen/Qwen2-0.5B-Instruct", PrefixCaching: true, Args: []string{"--ttft", "80ms"}},
			"tokenfactory sim-engine --listen 10.0.0.1:9001 --model demo --ttft 80ms"},
		{"sim", factory.ReplicaSpec{Location: "Qwen/Qwen2-0.5B-Instruct", ContextLength: 4096},
			"tokenfactory sim-engine --listen 10.0.0.1:9001 --model Qwen/Qwen2-0.5B-Instruct --context-length 4096 --no-prefix-caching"},
	} {
		argv, _ := engineNamed(t, c.engine).Launch(c.spec, "10.0.0.1", 9001)
		if got := strings.Join(argv, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.engine, got, c.want)
		}
	}
}

func TestLaunchDoesNotChangeTheCatalogue(t *testing.T) {
	before := slices.Clone(vllm.Command)
	for range 3 {
		vllm.Launch(factory.ReplicaSpec{Location: "a", Args: []string{"-x"}}, "127.0.0.1", 1)
	}
	if !slices.Equal(before, vllm.Command) || len(vllm.Command) != 2 {
		t.Errorf("command is now %v", vllm.Command)
	}
}

func TestSimulatorListensOnIPv6(t *testing.T) {
	argv, _ := simulator.Launch(factory.ReplicaSpec{ServedName: "m"}, "::1", 80)
	if !slices.Contains(argv, "[::1]:80") {
		t.Errorf("argv %v", argv)
	}
}

func TestCaseAI07DevicesAreNamedByUUID(t *testing.T) {
	_, env := vllm.Launch(factory.ReplicaSpec{GPUUUIDs: []string{"GPU-bbb", "GPU-aaa"}}, "127.0.0.1", 1)
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=GPU-bbb,GPU-aaa") {
		t.Errorf("environment %v", env)
	}
}

func TestReplicaWithoutGPUSeesNone(t *testing.T) {
	_, env := llamacpp.Launch(factory.ReplicaSpec{}, "127.0.0.1", 1)
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=") {
		t.Errorf("environment %v", env)
	}
}

func TestSecretsStayOutOfTheCommandLine(t *testing.T) {
	spec := factory.ReplicaSpec{Location: "m", Env: map[string]string{"VLLM_API_KEY": "s3cret", "HF_TOKEN": "hf_x"}}
	for _, e := range Catalogue {
		argv, env := e.Launch(spec, "127.0.0.1", 1)
		if strings.Contains(strings.Join(argv, " "), "s3cret") {
			t.Errorf("%s: %v", e.Name, argv)
		}
		if argv != nil && !slices.Contains(env, "VLLM_API_KEY=s3cret") {
			t.Errorf("%s: environment %v", e.Name, env)
		}
	}
}

func TestImageOnlyEnginesHaveNoCommand(t *testing.T) {
	for _, name := range []string{"nim", "dynamo", "trtllm"} {
		e := engineNamed(t, name)
		if argv, env := e.Launch(factory.ReplicaSpec{}, "127.0.0.1", 1); argv != nil || env != nil || e.Executable() != "" {
			t.Errorf("%s starts as %v", name, argv)
		}
	}
	if vllm.Executable() != "vllm" || sglang.Executable() != "python3" || llamacpp.Executable() != "llama-server" || simulator.Executable() != "tokenfactory" {
		t.Error("an executable has changed")
	}
}

func TestRunsOnSaysWhyNot(t *testing.T) {
	old := factory.Hardware{Arch: "amd64", GPUs: []factory.GPU{{Name: "Tesla P4", ComputeCap: "6.1"}}}
	mixed := factory.Hardware{Arch: "amd64", GPUs: []factory.GPU{{Name: "Tesla P4", ComputeCap: "6.1"}, {Name: "NVIDIA L4", ComputeCap: "8.9"}}}
	sick := factory.Hardware{Arch: "amd64", GPUs: []factory.GPU{{Name: "NVIDIA L4", Unhealthy: "It reports no memory."}}}
	cut := factory.Hardware{Arch: "amd64", GPUs: []factory.GPU{{Name: "NVIDIA A100", Partitioned: true}}}
	oldDriver := spark
	oldDriver.CUDA = "12.8"
	riscv := h100
	riscv.Arch = "riscv64"
	gh200 := factory.Hardware{Arch: "arm64", CUDA: "13.0", GPUs: []factory.GPU{{Name: "NVIDIA GH200 480GB", ComputeCap: "9.0"}}}
	for _, c := range []struct {
		what    string
		engine  string
		h       factory.Hardware
		runtime string
		want    string // part of the reason; empty: it runs
	}{
		{"checked process", "vllm", with(h100, factory.EngineCheck{Engine: "vllm", OK: true}), RuntimeProcess, ""},
		{"checked on Arm", "vllm", with(spark, factory.EngineCheck{Engine: "vllm", OK: true}), RuntimeProcess, ""},
		{"not installed", "vllm", with(h100, factory.EngineCheck{Engine: "vllm"}), RuntimeProcess, "no command vllm in the agent's PATH. Install it with pip"},
		{"agent's own reason", "sglang", with(h100, factory.EngineCheck{Engine: "sglang", Reason: "python3 has no sglang."}), RuntimeProcess, "python3 has no sglang."},
		{"not reported", "vllm", h100, RuntimeProcess, "has not reported whether vLLM is installed"},
		{"image only", "nim", h100, RuntimeProcess, "container or kubernetes runtime"},
		{"image only, Dynamo", "dynamo", h100, RuntimeProcess, "container or kubernetes runtime"},
		{"image only, TensorRT-LLM", "trtllm", spark, RuntimeProcess, "container or kubernetes runtime"},
		{"no GPU", "vllm", with(cpu, factory.EngineCheck{Engine: "vllm", OK: true}), RuntimeProcess, "needs an NVIDIA GPU, and this machine has none. Use"},
		{"no GPU needed", "llamacpp", with(cpu, factory.EngineCheck{Engine: "llamacpp", OK: true}), RuntimeProcess, ""},
		{"simulator on a CPU", "sim", with(cpu, factory.EngineCheck{Engine: "sim", OK: true}), RuntimeProcess, ""},
		{"simulator in a container", "sim", cpu, RuntimeContainer, "has no container image"},
		{"sick GPU", "vllm", sick, RuntimeContainer, "the NVIDIA L4 of this machine cannot be used: It reports no memory."},
		{"MIG without slices", "vllm", cut, RuntimeContainer, "MIG without any slice"},
		{"old GPU", "vllm", old, RuntimeContainer, "compute capability 7.0 or newer, and the Tesla P4 here has 6.1"},
		{"one GPU is new enough", "vllm", mixed, RuntimeContainer, ""},
		{"GB10 with an old driver", "vllm", oldDriver, RuntimeContainer, "needs CUDA 13, and this machine's NVIDIA driver supports CUDA 12.8"},
		{"GB10", "vllm", spark, RuntimeContainer, ""},
		{"GB10, TensorRT-LLM", "trtllm", spark, RuntimeKubernetes, ""},
		{"image needs a newer driver", "trtllm", h100, RuntimeContainer, "needs CUDA 13, and this machine's NVIDIA driver supports CUDA 12.4 at most. Update the driver."},
		{"older image for an older driver", "vllm", h100, RuntimeContainer, ""},
		{"no image for the architecture", "vllm", riscv, RuntimeContainer, "vLLM has images for arm64 and amd64 only (nvcr.io/nvidia/vllm:26.05.post1-py3), and this machine is riscv64"},
		{"image for another device", "nim", gh200, RuntimeContainer, "need a GPU that this machine does not have"},
		{"unknown runtime", "vllm", h100, "systemd", `runtime "systemd"`},
	} {
		ok, reason := engineNamed(t, c.engine).RunsOn(c.h, c.runtime)
		if ok != (c.want == "") || !strings.Contains(reason, c.want) || (ok && reason != "") {
			t.Errorf("%s: %v %q, want %q", c.what, ok, reason, c.want)
		}
		if !ok && !strings.HasSuffix(reason, ".") {
			t.Errorf("%s: no sentence: %q", c.what, reason)
		}
	}
}

func TestImageForPicksTheDevicesOwn(t *testing.T) {
	for _, c := range []struct {
		engine string
		h      factory.Hardware
		want   string
	}{
		{"vllm", spark, "nvcr.io/nvidia/vllm:26.05.post1-py3"},
		{"vllm", h100, "vllm/vllm-openai:v0.21.0-cu129"},
		{"llamacpp", spark, "ghcr.io/ggml-org/llama.cpp:server-cuda13"},
		{"llamacpp", h100, "ghcr.io/ggml-org/llama.cpp:server-cuda"},
		{"llamacpp", cpu, "ghcr.io/ggml-org/llama.cpp:server"},
		{"trtllm", spark, "nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev"},
	} {
		if img, reason := engineNamed(t, c.engine).ImageFor(c.h); img.Ref != c.want || reason != "" {
			t.Errorf("%s: %q %s, want %q", c.engine, img.Ref, reason, c.want)
		}
	}
}

func TestCheckOfADeployment(t *testing.T) {
	hf, ngc := factory.ModelSpec{Source: factory.SourceHuggingFace}, factory.ModelSpec{Source: factory.SourceNGC}
	for _, c := range []struct {
		what   string
		engine string
		d      factory.DeploymentSpec
		m      factory.ModelSpec
		field  string
	}{
		{"fits", "vllm", factory.DeploymentSpec{GPUCount: 1}, hf, ""},
		{"no GPU", "vllm", factory.DeploymentSpec{}, hf, "gpu_count"},
		{"CPU engine", "llamacpp", factory.DeploymentSpec{}, hf, ""},
		{"source", "vllm", factory.DeploymentSpec{GPUCount: 1}, ngc, "engine"},
		{"NIM", "nim", factory.DeploymentSpec{GPUCount: 1}, ngc, ""},
		{"simulator", "sim", factory.DeploymentSpec{}, ngc, ""},
		{"runs already", "vllm", factory.DeploymentSpec{Address: "http://127.0.0.1:8000"}, ngc, ""},
	} {
		errs := engineNamed(t, c.engine).Check(c.d, c.m)
		if c.field == "" && len(errs) > 0 || c.field != "" && (len(errs) != 1 || errs[c.field] == "") {
			t.Errorf("%s: %v, want %q", c.what, errs, c.field)
		}
	}
}

func TestExplainFindsTheKnownFailure(t *testing.T) {
	lines := []string{
		"INFO starting",
		"ValueError: invalid literal for int() with base 10: 'GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc'",
		"subprocess exited",
	}
	if got := vllm.Explain(lines); !strings.Contains(got, "too old to be given GPUs by UUID") {
		t.Errorf("%q", got)
	}
	if got := llamacpp.Explain([]string{"bind: Address already in use"}); !strings.Contains(got, "port") {
		t.Errorf("%q", got)
	}
	if got := vllm.Explain([]string{"all is well"}); got != "" {
		t.Errorf("%q", got)
	}
}
