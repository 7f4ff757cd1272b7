package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func logWith(t *testing.T, text string) logFile {
	t.Helper()
	l := logFile{filepath.Join(t.TempDir(), "engine.log")}
	if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLastLinesAreCleanAndWithoutSecrets(t *testing.T) {
	l := logWith(t, "before\n"+
		"\x1b[32mINFO\x1b[0m up\n\n"+
		"Loading:  10%\rLoading:  50%\rLoading: 100%\r\n"+
		"token is hf_abcdef \xff\x00!\n"+strings.Repeat("x", 2000))
	got := l.tail(int64(len("before\n")), []string{"hf_abcdef"})
	want := []string{"INFO up", "Loading: 100%", "token is [hidden] ?!"}
	if len(got) != 4 || !slices.Equal(got[:3], want) || len(got[3]) > maxLine+8 {
		t.Errorf("%q", got)
	}
}

func TestOnlyTheLastLinesOfALongLogAreRead(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	got := logWith(t, b.String()).tail(0, nil)
	if len(got) != maxLines || got[maxLines-1] != "line 19999" {
		t.Errorf("%q", got)
	}
	if got := logWith(t, "line\n").tail(1000, nil); len(got) != 1 {
		t.Errorf("after the log was cut: %q", got)
	}
}

func TestALogIsCutWhileItsEngineWrites(t *testing.T) {
	l := logFile{filepath.Join(t.TempDir(), "engine.log")}
	f, from, err := l.open()
	if err != nil || from != 0 {
		t.Fatal(from, err)
	}
	defer f.Close()
	line := strings.Repeat("y", 1023) + "\n"
	for range 2048 {
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.rotate(1 << 20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(l.path)
	if err != nil || info.Size() != int64(len("after\n")) {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	if old, err := os.Stat(l.path + ".1"); err != nil || old.Size() != 2<<20 {
		t.Errorf("what was before is not beside it: %v", err)
	}
}

func TestProgressIsFoundInWhatEnginesLog(t *testing.T) {
	for line, want := range map[string]bool{
		"Loading safetensors checkpoint shards:  45% Completed | 5/11 [00:03<00:04]": true,
		"Downloading model.safetensors: 12%|█▏        | 1.2G/9.9G":                   true,
		"Capturing CUDA graphs: 100%|██████████| 35/35":                              true,
		"GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%":                      false,
		"INFO: Application startup complete.":                                        false,
	} {
		if got := progressIn([]string{"first", line, "last"}) != ""; got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestSecretsAreKnownByTheirName(t *testing.T) {
	t.Setenv("SOME_API_KEY", "agents-own")
	got := secretsIn(map[string]string{"HF_TOKEN": "hf_1234567", "VLLM_LOGGING_LEVEL": "DEBUGGING", "MY_PASSWORD": "123"})
	if !slices.Contains(got, "hf_1234567") || !slices.Contains(got, "agents-own") || slices.Contains(got, "DEBUGGING") || slices.Contains(got, "123") {
		t.Errorf("%q", got)
	}
}

func TestStatLinesAreReadWhateverTheProgramIsCalled(t *testing.T) {
	got, err := parseStat("4242 (vllm) (x) S 1 4242 4242 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 987654 1 2 3")
	if err != nil || got != (seen{'S', 4242, 987654}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S", "1 (x) S 1 y 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
