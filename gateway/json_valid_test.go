package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var jsonTexts = []string{
	``, ` `, `{}`, `[]`, ` { } `, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e`, `-1.25e-7 `, `+1`,
	`"a"`, `"`, `"a`, `"\"`, `"\\"`, `"\u12aF"`, `"\u12g4"`, `"\u123"`, `"\x"`, "\"\n\"", "\"\x1f\"", "\"\x20\x7f\xff\"", `"12345678"`, `"1234567\"890"`, `"1234567`, `"12345678\`,
	`{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"b":[1,2,{"c":null}]}`, `{,}`, `[,]`, `[1,]`, `[1 2]`, `[1}`, `{"a":1]`, `{} {}`, `[[[]]]`, `[[[]]`, `]`,
	`{"model":"x","messages":[{"role":"user","content":"näïve ☂ \ud83d\ude00"}],"temperature":0.7,"stream":true}`,
}

func TestJSONIsValidWhereTheStandardLibrarySaysSo(t *testing.T) {
	for _, text := range jsonTexts {
		if got, want := validJSON([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%q: valid %v, want %v", text, got, want)
		}
		for i := range len(text) {
			for _, b := range []byte("\"\\{}[],:0-.eu \n\x00\x1f\x80n") {
				changed := []byte(text)
				changed[i] = b
				if got, want := validJSON(changed), json.Valid(changed); got != want {
					t.Errorf("%q: valid %v, want %v", changed, got, want)
				}
			}
		}
	}
	for _, depth := range []int{1, 63, 64, 65, maxNesting, maxNesting + 1} {
		for _, text := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			if got, want := validJSON([]byte(text)), json.Valid([]byte(text)); got != want {
				t.Errorf("%d levels: valid %v, want %v", depth, got, want)
			}
		}
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("%q: valid %v, want %v", text, got, want)
		}
	})
}

// One request of nothing but opening brackets must not take everybody's gateway down:
// a stack that has grown too large cannot be recovered from.
func TestDeepJSONIsRefused(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte(whole)) })
	b := newBench(t, []string{e.URL})
	for _, part := range []string{`[`, `{"a":`} {
		body := `{"model":"` + asked + `","messages":` + strings.Repeat(part, (16<<20)/len(part))
		if r := b.chat(body); r.status != http.StatusBadRequest {
			t.Errorf("status %d", r.status)
		}
	}
	if r := b.chat(plainly); r.status != http.StatusOK {
		t.Errorf("status %d afterwards", r.status)
	}
}

func BenchmarkValidJSON(b *testing.B) {
	body := []byte(`{"model":"x","messages":[{"role":"user","content":"` + strings.Repeat("All work and no play makes a dull prompt. ", 1200) + `"}]}`)
	for name, valid := range map[string]func([]byte) bool{"ours": validJSON, "gjson": gjson.ValidBytes, "standard": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if !valid(body) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
