package gateway

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"tokenfactory/factory"
)

// fill gives every field a value of its own, so that one that is forgotten or mixed
// up shows.
func fill(t *testing.T, u *factory.Usage, rnd *rand.Rand) {
	texts := []string{"", "plain", `with "quotes" and \`, "tab\tand line\n", "ünïcödé", "<&>", "\x00\x7f", "bad \xff utf-8", "\u2028"}
	for i := range reflect.ValueOf(u).Elem().NumField() {
		f := reflect.ValueOf(u).Elem().Field(i)
		switch f.Interface().(type) {
		case string:
			f.SetString(texts[rnd.IntN(len(texts))] + string(rune('a'+i)))
		case int, int64:
			f.SetInt(rnd.Int64() * int64(1-2*rnd.IntN(2)))
		case bool:
			f.SetBool(rnd.IntN(2) == 1)
		case *float64:
			if x := rnd.ExpFloat64() * math.Pow(10, float64(rnd.IntN(12)-3)); rnd.IntN(4) > 0 {
				f.Set(reflect.ValueOf(&x))
			} else {
				f.SetZero()
			}
		case time.Time:
			f.Set(reflect.ValueOf(time.UnixMicro(rnd.Int64N(1 << 52)).UTC()))
		default:
			t.Fatalf("a usage row has a field of a new kind: %s. Teach appendUsage to write it", f.Type())
		}
	}
}

func TestUsageIsWrittenAsJSONReadsIt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var u, got, want factory.Usage
		fill(t, &u, rnd)
		text, err := appendUsage(nil, &u)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(slow, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nis written as %s\nand read as %+v (%v)", u, text, got, err)
		}
		var fields, wanted map[string]any
		if json.Unmarshal(text, &fields) != nil || json.Unmarshal(slow, &wanted) != nil {
			t.Fatal("these are no objects")
		}
		a, b := slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(wanted))
		if !slices.Equal(a, b) {
			t.Fatalf("the fields are %v and should be %v", a, b)
		}
	}
	nan := math.NaN()
	if text, err := appendUsage(nil, &factory.Usage{E2EMS: &nan}); err == nil {
		t.Errorf("no number is written as %s", text)
	}
}

func BenchmarkEncodeRow(b *testing.B) {
	ms := 1.234
	u := factory.Usage{ID: factory.NewID(), TenantID: factory.NewID(), KeyID: factory.NewID(), DeploymentID: factory.NewID(), ReplicaID: factory.NewID(),
		PriceID: factory.NewID(), Endpoint: "chat.completions", ModelAsked: "Qwen/Qwen2-0.5B-Instruct", ModelServed: "Qwen/Qwen2-0.5B-Instruct",
		Status: 200, Attempts: 1, PromptTokens: 13, CompletionTokens: 8, StartedAt: factory.Now(), QueueMS: &ms, E2EMS: &ms}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeRow(u); err != nil {
			b.Fatal(err)
		}
	}
}
