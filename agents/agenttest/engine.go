// Package agenttest has an engine for tests of what agents do with engines: small,
// and willing to misbehave. A test binary becomes the engine when it is started
// under the name of the simulator.
package agenttest

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Main is for TestMain: it runs the engine instead of the tests when asked to.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sim-engine" {
		engine(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// Install puts the engine on the PATH of this process, as tokenfactory.
func Install(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "tokenfactory")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func engine(args []string) {
	f := flag.NewFlagSet("engine", flag.ExitOnError)
	listen := f.String("listen", "127.0.0.1:0", "")
	model := f.String("model", "", "")
	loading := f.Duration("loading", 0, "answer 503 for so long")
	fail := f.String("fail", "", "say this and exit with status 1")
	stubborn := f.Bool("stubborn", false, "ignore SIGTERM")
	mute := f.Bool("mute", false, "answer without a token")
	f.Bool("no-prefix-caching", false, "taken for compatibility")
	f.Int("context-length", 0, "taken for compatibility")
	_ = f.Parse(args)

	if *fail != "" {
		fmt.Fprintln(os.Stderr, *fail)
		os.Exit(1)
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	go func() {
		for range terms {
			if !*stubborn {
				os.Exit(0)
			}
		}
	}()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening on", ln.Addr(), "secret", os.Getenv("TEST_TOKEN"), "joined with", os.Getenv("TOKENFACTORY_JOIN_TOKEN"))
	_ = http.Serve(ln, Handler(*model, time.Now().Add(*loading), *mute))
}

// Handler is the engine's HTTP side: it loads until a moment, and makes a token for
// every request.
func Handler(model string, loaded time.Time, mute bool) http.Handler {
	var prompt, generation, running atomic.Int64
	var broken atomic.Bool
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	down := func(w http.ResponseWriter) bool {
		if time.Now().Before(loaded) || broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer(w, map[string]any{"error": map[string]any{"message": "Loading model"}})
			return true
		}
		return false
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { _ = down(w) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"data": []any{map[string]any{"id": model}}})
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model string `json:"model"`
		}
		if down(w) {
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Model != model {
			http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusNotFound)
			return
		}
		made := 1
		if mute {
			made = 0
		}
		prompt.Add(3)
		generation.Add(int64(made))
		answer(w, map[string]any{
			"choices": []any{map[string]any{"message": map[string]any{"content": strings.Repeat("x", made)}}},
			"usage":   map[string]any{"prompt_tokens": 3, "completion_tokens": made},
		})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=%q} %d\n", model, running.Load())
		fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=%q} 0\n", model)
		fmt.Fprintf(w, "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=%q} 0.25\n", model)
		fmt.Fprintf(w, "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{model_name=%q} %d\n", model, prompt.Load())
		fmt.Fprintf(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=%q} %d\n", model, generation.Load())
	})
	mux.HandleFunc("POST /exit", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.FormValue("status"))
		fmt.Println("CUDA out of memory: told to exit")
		os.Exit(status)
	})
	mux.HandleFunc("POST /running", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		running.Store(int64(n))
	})
	mux.HandleFunc("POST /break", func(w http.ResponseWriter, r *http.Request) { broken.Store(r.FormValue("on") != "") })
	mux.HandleFunc("GET /pid", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getpid()) })
	return mux
}
