package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var scanViews = []view{
	{name: asked, nameJSON: `"` + asked + `"`},
	{name: asked, nameJSON: `"` + asked + `"`, usage: usageFinal},
	{name: "other", nameJSON: `"other"`, usage: usageNone, hideTimings: true},
}

// sameAsParse compares what the two ways of reading find, and reports whether the
// quick one did read it.
func sameAsParse(t *testing.T, data []byte) (scanned bool) {
	t.Helper()
	for i := range scanViews {
		v := &scanViews[i]
		var quick, slow chunk
		if !quick.scan(data, v) {
			continue
		}
		scanned = true
		slow.parse(data, v)
		for _, c := range []*chunk{&quick, &slow} {
			if len(c.tokens) == 0 {
				c.tokens = nil
			}
		}
		got := string(splice(nil, data, quick.edits[:quick.n], ""))
		want := string(splice(nil, data, slow.edits[:slow.n], ""))
		if got != want {
			t.Fatalf("%s\nbecomes %s\nand not %s", data, got, want)
		}
		quick.edits, slow.edits = [4]edit{}, [4]edit{} // in another order
		if !reflect.DeepEqual(quick, slow) {
			t.Fatalf("%s\nis read as %+v\nand not as  %+v", data, quick, slow)
		}
	}
	return scanned
}

func TestTheQuickWayReadsEventsAsTheLongOneDoes(t *testing.T) {
	for _, c := range []struct {
		text  string
		quick bool
	}{
		{`{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]}`, true},
		{`{"id":"a","model":"m","choices":[{"index":3,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}}`, true},
		{`{"choices":[{"index":0,"text":"a \"quoted\" }]{[ text\\"}],"usage":null,"model":"demo-small"}`, true},
		{`{ "choices" : [ { "index" : 1 , "delta" : { "tool_calls" : [ { "index" : 0 } ] } } ] , "usage" : { "prompt_tokens" : 3 , "completion_tokens" : 2 } , "created" : 17 }`, true},
		{`{"choices":[{"index":0,"delta":{"reasoning":"r","reasoning_content":"r"}}],"nested":{"a":[1,{"b":"}"}]},"x":-1.5e3,"y":true}`, true},
		{`{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[],"function_call":{}}}]}`, true},
		{`{"choices":[{"index":0,"delta":null}]}`, true},
		{`{"choices":[{}]}`, true},
		{`{"usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"index":0,"delta":{"content":"x"}}]}`, true}, // where it stays
		{`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, false},
		{`{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{}}]}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3.5,"completion_tokens":2}}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"completion_tokens":2,"total_tokens":5}}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3},"usage":{"prompt_tokens":4}}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"timings":{"predicted_n":3}}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"error":null}`, false},
		{`{"ch\u006fices":[{"index":0,"delta":{"content":"x"}}]}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],"model":"a\u0062"}`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}]`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x`, false},
		{`{"choices":[{"index":0,"delta":{"content":"x"}}],}`, false},
		{`{}`, false},
		{`{`, false},
	} {
		if quick := sameAsParse(t, []byte(c.text)); quick != c.quick {
			t.Errorf("%s: read the quick way: %v, want %v", c.text, quick, c.quick)
		}
	}
}

// Events that engines were seen to send, and all of them with one byte changed.
func TestTheQuickWayReadsWhatEnginesSendAsTheLongOneDoes(t *testing.T) {
	quick, all := 0, 0
	for _, data := range engineEvents(t) {
		all++
		if sameAsParse(t, data) {
			quick++
		}
		for i := range data {
			for _, b := range []byte(`"{}[],:\ 0n`) {
				changed := append([]byte(nil), data...)
				if changed[i] = b; gjson.ValidBytes(changed) {
					sameAsParse(t, changed)
				}
			}
		}
	}
	if quick < all/2 {
		t.Errorf("only %d of %d events are read the quick way", quick, all)
	}
}

func FuzzChunkScan(f *testing.F) {
	f.Add([]byte(`{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`))
	f.Add([]byte(`{"choices":[{"index":0,"text":"\\\""}],"model":"demo-small","usage":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 0 && data[0] == '{' && gjson.ValidBytes(data) {
			sameAsParse(t, data)
		}
	})
}

// engineEvents are the events of all recorded streams; of those with the same fields
// and about the same length, one.
func engineEvents(t *testing.T) (events [][]byte) {
	t.Helper()
	files, err := filepath.Glob("testdata/sse/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatal("the recorded streams are not here", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in := newEventReader(strings.NewReader(string(text) + "\n\n"))
		for {
			for ev, ok := in.next(); ok; ev, ok = in.next() {
				shape := fmt.Sprint(len(ev.data)/8, gjson.GetBytes(ev.data, "choices.0.delta|@keys"), gjson.GetBytes(ev.data, "@keys"))
				if len(ev.data) > 0 && ev.data[0] == '{' && !seen[shape] {
					seen[shape] = true
					events = append(events, append([]byte(nil), ev.data...))
				}
			}
			if in.fill() != nil {
				break
			}
		}
		in.free()
	}
	return events
}
