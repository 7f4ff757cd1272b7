package sim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestFaultsAreReadFromFlags(t *testing.T) {
	for text, want := range map[string]Fault{
		"slow-prefill=4x":       {Kind: SlowPrefill, Factor: 4},
		"slow_decode=2.5":       {Kind: SlowDecode, Factor: 2.5},
		"thermal":               {Kind: Thermal, Factor: 2},
		"errors=20%@30s":        {Kind: Errors, Factor: 0.2, For: 30 * time.Second},
		"hidden-queue=250ms":    {Kind: HiddenQueue, Delay: 250 * time.Millisecond},
		"hidden-queue":          {Kind: HiddenQueue, Delay: 500 * time.Millisecond},
		"crash@1m":              {Kind: Crash, For: time.Minute},
		"queue=128x@1m30s":      {Kind: Queue, Factor: 128, For: 90 * time.Second},
		"preemption=1":          {Kind: Preemption, Factor: 1},
		"kv-pressure=32x@500ms": {Kind: KVPressure, Factor: 32, For: 500 * time.Millisecond},
	} {
		if got, err := ParseFault(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, part := range map[string]string{
		"slow":              "there are slow_prefill",
		"":                  "there is no fault",
		"slow-prefill=fast": "no strength",
		"slow-decode=0.5":   "factor from 1",
		"slow-decode=NaN":   "factor from 1",
		"errors=120%":       "at most 1",
		"errors=-5%":        "above 0",
		"hidden-queue=4x":   "no strength",
		"hidden-queue=-1s":  "negative",
		"thermal@soon":      "no duration",
		"thermal@0s":        "no duration",
	} {
		if _, err := ParseFault(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want something with %q", text, err, part)
		}
	}
}

func TestFaultsAreStartedAndEndedOverHTTP(t *testing.T) {
	// It loads for ever: the control endpoint must answer all the same.
	e, url := start(t, Options{Load: time.Hour, Faults: []Fault{{Kind: Thermal}}})
	at := url + controlPath
	if status, body := get(t, at); status != 200 || body != `{"faults":[{"kind":"thermal","factor":2}]}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	status, body := post(t, at, `{"kind":"errors","factor":0.25,"duration":"30m"}`)
	if want := `{"faults":[{"kind":"thermal","factor":2},{"kind":"errors","factor":0.25,"duration":"30m0s"}]}` + "\n"; status != 200 || body != want {
		t.Errorf("%d %s", status, body)
	}
	for _, wrong := range []string{`{"kind":"slow"}`, `{"kind":"errors","factor":2}`, `{"kind":"thermal","duration":"soon"}`, `{`, ``} {
		status, body := post(t, at, wrong)
		var answer struct{ Error struct{ Message string } }
		if json.Unmarshal([]byte(body), &answer) != nil || status != 400 || answer.Error.Message == "" {
			t.Errorf("%s: %d %s", wrong, status, body)
		}
	}
	if len(e.Faults()) != 2 {
		t.Errorf("refused ones changed something: %+v", e.Faults())
	}
	if status, body := remove(t, at+"?kind=thermal"); status != 200 || strings.Contains(body, "thermal") || len(e.Faults()) != 1 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := remove(t, at); status != 200 || body != `{"faults":[]}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
}
