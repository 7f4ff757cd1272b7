package factory

import (
	"testing"
)

func TestBuiltInModelsAreValidAndKnowTheirProvider(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range BuiltInModels {
		errs := m.Validate()
		CheckName(errs, "name", m.Name)
		if len(errs) > 0 {
			t.Errorf("%s: %v", m.Name, errs)
		}
		if _, ok := BuiltInProvider(m.Provider); !ok {
			t.Errorf("%s names provider %q, which is not in the list", m.Name, m.Provider)
		}
		if seen[m.Name] {
			t.Errorf("%s is listed twice", m.Name)
		}
		seen[m.Name] = true
		if m.WeightBytes() == 0 {
			t.Errorf("%s has no weight estimate", m.Name)
		}
	}
	if len(BuiltInModels) < 15 {
		t.Errorf("%d models, want at least 15", len(BuiltInModels))
	}
}

func TestMemoryEstimatesMatchPublishedSizes(t *testing.T) {
	for name, want := range map[string]struct {
		weights float64 // decimal GB of the published checkpoint
		kv      int64   // bytes per token, from the published configuration
	}{
		"llama-3.1-8b-instruct":  {16.07, 131072},
		"llama-3.3-70b-instruct": {141.1, 327680},
		"qwen2-0.5b-instruct":    {0.988, 12288},
		"qwen3-32b":              {65.5, 262144},
	} {
		m, ok := BuiltInModel(name)
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		if got := float64(m.WeightBytes()) / 1e9; got < want.weights*0.98 || got > want.weights*1.02 {
			t.Errorf("%s: weights %.2f GB, published %.2f GB", name, got, want.weights)
		}
		if got := m.KVBytesPerToken(); got != want.kv {
			t.Errorf("%s: %d bytes of cache a token, want %d", name, got, want.kv)
		}
	}
}

func TestNothingIsFoundUnderAnUnknownName(t *testing.T) {
	if _, ok := BuiltInModel("no-such-model"); ok {
		t.Error("a model was found")
	}
	if _, ok := BuiltInProvider("no-such-provider"); ok {
		t.Error("a provider was found")
	}
}
