package sim

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRepeatedPrefixesAreCachedInWholeBlocks(t *testing.T) {
	_, url := start(t, Options{BlockSize: 16})
	long := strings.Repeat("All work and no play makes a dull day. ", 20)
	ask := func(question string) (cached, prompt int) {
		_, body := post(t, url+"/v1/chat/completions", `{"max_tokens":1,"messages":[{"role":"system","content":"`+long+`"},{"role":"user","content":"`+question+`"}]}`)
		var c chunk
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatal(err)
		}
		if c.Usage.Details != nil {
			cached = c.Usage.Details.Cached
		}
		return cached, c.Usage.Prompt
	}
	if cached, _ := ask("one"); cached != 0 {
		t.Errorf("%d cached of a first prompt", cached)
	}
	cached, prompt := ask("two")
	if cached == 0 || cached%16 != 0 || cached >= prompt || cached < prompt/2 {
		t.Errorf("%d of %d cached", cached, prompt)
	}
	if all, prompt := ask("two"); all >= prompt || all < cached {
		t.Errorf("%d of %d cached of the very same prompt", all, prompt)
	}
	r := reading(t, url)
	if *r.CachedTokens == 0 || *r.PrefixQueries < *r.CachedTokens || *r.PrefixQueries != *r.PromptTokens {
		t.Errorf("metrics: %v cached, %v looked up, %v prompt", *r.CachedTokens, *r.PrefixQueries, *r.PromptTokens)
	}
}

func TestSomethingIsComputedOfAFullyCachedPrompt(t *testing.T) {
	_, url := start(t, Options{BlockSize: 16})
	body := `{"prompt":"` + strings.Repeat("word", 64) + `","max_tokens":1}`
	post(t, url+"/v1/completions", body)
	if _, again := post(t, url+"/v1/completions", body); !strings.Contains(again, `"prompt_tokens":64,`) || !strings.Contains(again, `"cached_tokens":48}`) {
		t.Errorf("%s", again)
	}
}

func TestPrefixCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	c := newPrefixCache(4)
	c.add([]uint64{1, 2})
	c.add([]uint64{3, 4})
	if n := c.lookup([]uint64{1, 2}); n != 2 {
		t.Fatalf("%d of 2", n)
	}
	c.add([]uint64{5, 6})
	if a, b := c.lookup([]uint64{1, 2}), c.lookup([]uint64{3, 4}); a != 2 || b != 0 {
		t.Errorf("%d of the used and %d of the unused are left", a, b)
	}
}

func TestNoPrefixCachingCachesNothing(t *testing.T) {
	_, url := start(t, Options{NoPrefixCaching: true})
	for range 2 {
		_, body := post(t, url+"/v1/completions", `{"prompt":"`+strings.Repeat("x", 4000)+`","max_tokens":1}`)
		if strings.Contains(body, "cached_tokens") {
			t.Errorf("%s", body)
		}
	}
}
