package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"time"
)

func (e *Engine) embeddings(w http.ResponseWriter, r *http.Request) {
	if e.hide(r.Context()) != nil {
		return // the client has left
	}
	arrived := time.Now()
	var in struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Encoding   string          `json:"encoding_format"`
		Dimensions *int            `json:"dimensions"`
	}
	p := decode(w, r, &in)
	if p == nil {
		p = e.unknown(in.Model)
	}
	size := e.Dimensions
	if p == nil && in.Dimensions != nil {
		if size = *in.Dimensions; size < 1 || size > 16384 {
			p = badRequest("dimensions", "dimensions must be between 1 and 16384.")
		}
	}
	if p == nil && in.Encoding != "" && in.Encoding != "float" && in.Encoding != "base64" {
		p = badRequest("encoding_format", "encoding_format must be float or base64.")
	}
	var prompts []prompt
	if p == nil {
		prompts, p = inputs(in.Input, "input")
	}
	if p == nil {
		p = e.fail()
	}
	if p != nil {
		refuse(w, p)
		return
	}
	tokens := 0
	for _, one := range prompts {
		tokens += one.tokens
	}
	if !e.embed(r, tokens, arrived) {
		return
	}
	data := make([]any, len(prompts))
	for i, one := range prompts {
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": vector(one, size, in.Encoding == "base64")}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": "embd-" + newID(false)[len("cmpl-"):], "object": "list", "created": arrived.Unix(), "model": e.Model, "data": data,
		"usage": usage{Prompt: tokens, Total: tokens},
	})
}

// embed takes the time that a prefill of the tokens takes; false when the client left.
func (e *Engine) embed(r *http.Request, tokens int, arrived time.Time) bool {
	at, err := e.enter(r.Context(), tokens)
	if err != nil {
		e.abort(r.Context(), nil)
		return false
	}
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	due := time.Now().Add(time.Duration(float64(e.TTFT+time.Duration(tokens)*e.PrefillPerToken) * e.prefillFactor()))
	if sleep(r.Context(), timer, due) != nil {
		e.abort(r.Context(), at)
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaveLocked(at)
	e.figures.prompt += uint64(tokens)
	e.figures.finished["stop"]++
	e.figures.e2e.observe(time.Since(arrived))
	return true
}

// vector is of length 1, and the same for the same text.
func vector(p prompt, size int, encoded bool) any {
	rng := rand.New(rand.NewPCG(p.hash(), 0))
	v := make([]float32, size)
	sum := 0.0
	for i := range v {
		x := rng.NormFloat64()
		v[i] = float32(x)
		sum += x * x
	}
	norm := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= norm
	}
	if !encoded {
		return v
	}
	b := make([]byte, 0, 4*size)
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
