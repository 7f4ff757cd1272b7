package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidwall/gjson"
)

// expected is what a correct meter reads from a recorded stream.
type expected struct {
	End        string          `json:"end"`
	Prompt     *int64          `json:"prompt"`
	Completion int64           `json:"completion"`
	Cached     int64           `json:"cached"`
	ErrorCode  json.RawMessage `json:"error_code"`
}

// recorded reads the streams of real engines, with LF and with CR LF.
func recorded(t testing.TB) (map[string][]byte, map[string]expected) {
	t.Helper()
	text, err := os.ReadFile("testdata/sse/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]expected
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	streams := map[string][]byte{}
	files, err := filepath.Glob("testdata/sse/*.sse")
	if err != nil || len(files) != 36 || len(want) != 36 {
		t.Fatalf("%d streams and %d expectations, want 36: %v", len(files), len(want), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		streams[name] = b
		streams["CR LF/"+name] = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
		want["CR LF/"+name] = want[name]
	}
	return streams, want
}

// events is what a reader makes of a stream.
func events(t testing.TB, src io.Reader) []string {
	t.Helper()
	var out []string
	note := func(ev *event) {
		out = append(out, string(ev.raw)+"|"+string(ev.data)+"|"+string(ev.name)+"|"+string(ev.failure)+"|"+strconv.Itoa(ev.dataAt))
	}
	r := newEventReader(src)
	defer r.free()
	for {
		for {
			ev, ok := r.next()
			if !ok {
				break
			}
			note(ev)
		}
		if err := r.fill(); err == io.EOF {
			if ev, ok := r.rest(); ok {
				note(ev)
			}
			return out
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordedStreamsGiveTheSameEventsCutAtEveryByte(t *testing.T) {
	streams, _ := recorded(t)
	for name, b := range streams {
		whole := events(t, bytes.NewReader(b))
		step := 1
		if testing.Short() {
			step = 13
		}
		for i := 1; i < len(b); i += step {
			cut := events(t, io.MultiReader(bytes.NewReader(b[:i]), bytes.NewReader(b[i:])))
			if !slices.Equal(cut, whole) {
				t.Fatalf("%s cut at %d gives\n%q\nwant\n%q", name, i, cut, whole)
			}
		}
		if single := events(t, iotest.OneByteReader(bytes.NewReader(b))); !slices.Equal(single, whole) {
			t.Errorf("%s byte by byte differs", name)
		}
	}
}

func TestRecordedStreamsGiveTheirTotalsAndEndStates(t *testing.T) {
	streams, want := recorded(t)
	var current []byte
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(current)
	})
	b := newBench(t, []string{e.URL})
	type asked1 struct {
		name, body string
		reply      reply
	}
	var asks []asked1
	for name, stream := range streams {
		for _, body := range []string{streamed, `{"model":"demo-small","stream":true,"timings_per_token":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`} {
			current = stream
			asks = append(asks, asked1{name, body, b.chat(body)})
		}
	}
	b.row(len(asks))
	for i, u := range b.ledger() { // in the order in which they were asked
		name, body, r := asks[i].name, asks[i].body, asks[i].reply
		w := want[name]
		tokens := u.CompletionTokens > 0 || w.Prompt != nil
		flags := strings.Split(u.Flags, ",")
		has := func(f string) bool {
			for _, g := range flags {
				if f == g {
					return true
				}
			}
			return false
		}
		switch {
		case w.End == "done" && (has("truncated") || has("failed") || r.err != nil || u.E2EMS == nil):
			t.Errorf("%s: flags %q, %v, want a whole stream", name, u.Flags, r.err)
		case w.End != "done" && (tokens != has("truncated") || tokens == has("failed") || r.err == nil && r.status == 200 || u.E2EMS != nil):
			t.Errorf("%s: flags %q, %v, want a broken stream", name, u.Flags, r.err)
		case w.Prompt == nil && tokens && !has("estimated"), w.Prompt != nil && has("estimated"):
			t.Errorf("%s: flags %q", name, u.Flags)
		case w.Prompt != nil && (u.PromptTokens != *w.Prompt || u.CompletionTokens != w.Completion):
			t.Errorf("%s: %d/%d, want %d/%d", name, u.PromptTokens, u.CompletionTokens, *w.Prompt, w.Completion)
		case w.Prompt == nil && u.PromptTokens != 0:
			t.Errorf("%s: %d prompt tokens from nowhere", name, u.PromptTokens)
		case w.Cached != 0 && u.CachedTokens != w.Cached:
			t.Errorf("%s: %d cached, want %d", name, u.CachedTokens, w.Cached)
		}
		all := dataEvents(r.body)
		for i, d := range all {
			if d == "[DONE]" {
				continue
			}
			if !gjson.Valid(d) {
				t.Errorf("%s: the client got %s", name, d)
			}
			if m := gjson.Get(d, "model"); m.Exists() && m.String() != asked {
				t.Errorf("%s: the client sees the model %s", name, m)
			}
			if body == streamed && (gjson.Get(d, "usage").IsObject() || strings.Contains(name, "timings") && gjson.Get(d, "timings").Exists()) && strings.Contains(name, "vllm") {
				t.Errorf("%s: the client sees what it did not ask for: %s", name, d)
			}
			if w.End == "error" && i == len(all)-1 {
				if code := gjson.Get(d, "error.code").Raw; len(w.ErrorCode) > 0 && code != string(w.ErrorCode) {
					t.Errorf("%s: error code %s, want %s", name, code, w.ErrorCode)
				}
			}
		}
	}
}

// FuzzEvents feeds a reader the same bytes in two ways. Nothing may be lost, made
// up, or depend on how the bytes arrive, and no edit may make valid JSON invalid.
func FuzzEvents(f *testing.F) {
	streams, _ := recorded(f)
	for _, b := range streams {
		if len(b) < 1500 {
			f.Add(b, uint16(7))
		}
	}
	f.Add([]byte("data:\r\n\r\ndata\n\n:\n\nevent\n\n"), uint16(1))
	f.Add([]byte(`data: {"usage":{},"timings":{},"model":"x"}`+"\n\n"), uint16(9))
	f.Add([]byte("data: {\"usage\":{}\ndata: ,\"choices\":[{}]}\n\n"), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		cut := min(int(at), len(b))
		one := events(t, bytes.NewReader(b))
		two := events(t, io.MultiReader(bytes.NewReader(b[:cut]), bytes.NewReader(b[cut:])))
		if !slices.Equal(one, two) {
			t.Fatalf("%q cut at %d:\n%q\n%q", b, cut, one, two)
		}
		var raw []byte
		r := newEventReader(iotest.HalfReader(bytes.NewReader(b)))
		defer r.free()
		take := func(ev *event) {
			raw = append(raw, ev.raw...)
			valid := gjson.ValidBytes(ev.data)
			for _, v := range []view{{}, {usage: usageNone, hideTimings: true, name: asked, nameJSON: `"` + asked + `"`}, {usage: usageFinal, name: asked, nameJSON: `"` + asked + `"`}} {
				s := stream{view: v}
				s.chunk.read(ev.data, &s.view)
				var m meter
				m.take(&s.chunk)
				if c, _ := m.totals(); c.prompt < 0 || c.cached < 0 || c.completion < 0 || c.cached > c.prompt {
					t.Fatalf("counts %+v from %q", c, ev.data)
				}
				if s.chunk.failed {
					if d, ok := bytes.CutPrefix(s.chunk.failure.event(), []byte("data: ")); !ok || !gjson.ValidBytes(bytes.TrimSpace(d)) {
						t.Fatalf("failure event %q", d)
					}
					continue
				}
				if s.chunk.n == 0 || s.chunk.drop {
					continue
				}
				out := bytes.Clone(s.rewrite(ev))
				if !valid {
					continue
				}
				again := events(t, bytes.NewReader(out))
				if len(again) != 1 && !bytes.HasSuffix(ev.raw, []byte("\n")) {
					t.Fatalf("%q became %q", ev.raw, out)
				}
				var c chunk
				inner := newEventReader(bytes.NewReader(out))
				if err := inner.fill(); err != nil {
					t.Fatal(err)
				}
				if e2, ok := inner.next(); ok && len(e2.data) > 0 {
					if !gjson.ValidBytes(e2.data) {
						t.Fatalf("%q became %q", ev.data, e2.data)
					}
					if c.read(e2.data, &v); c.n > 0 {
						t.Fatalf("%q still has to be changed", e2.data)
					}
				}
				inner.free()
			}
		}
		for {
			for {
				ev, ok := r.next()
				if !ok {
					break
				}
				take(ev)
			}
			if err := r.fill(); err != nil {
				break
			}
		}
		if ev, ok := r.rest(); ok {
			take(ev)
		}
		if !bytes.Equal(raw, b) {
			t.Fatalf("%q came out as %q", b, raw)
		}
	})
}
