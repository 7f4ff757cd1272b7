package sim

import (
	"net/http"
	"time"
)

func (e *Engine) chat(w http.ResponseWriter, r *http.Request)        { e.complete(w, r, true) }
func (e *Engine) completions(w http.ResponseWriter, r *http.Request) { e.complete(w, r, false) }

func (e *Engine) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	if e.hide(r.Context()) != nil {
		return // the client has left
	}
	arrived := time.Now()
	req, p := e.read(w, r, chat)
	if p == nil {
		p = e.fail()
	}
	if p != nil {
		refuse(w, p)
		return
	}
	g := e.newGeneration(req, arrived)
	if req.stream {
		e.stream(w, r, g)
		return
	}
	if e.generate(r.Context(), g, func(bool) error { return nil }) != nil {
		return // the client has left
	}
	writeJSON(w, http.StatusOK, e.answer(g))
}

// usage is in vLLM's order.
type usage struct {
	Prompt     int      `json:"prompt_tokens"`
	Total      int      `json:"total_tokens"`
	Completion int      `json:"completion_tokens"`
	Details    *details `json:"prompt_tokens_details"`
}

type details struct {
	Cached int `json:"cached_tokens"`
}

// usage of the whole request. Like vLLM it has details only when something was cached.
func (g *generation) usageSoFar() usage {
	u := usage{Prompt: g.prompt, Completion: g.made()}
	u.Total = u.Prompt + u.Completion
	if g.cached > 0 {
		u.Details = &details{g.cached}
	}
	return u
}

func (e *Engine) answer(g *generation) any {
	choices := make([]any, len(g.choices))
	for i, c := range g.choices {
		one := map[string]any{"index": i, "logprobs": nil, "finish_reason": c.reason, "stop_reason": nil}
		if g.request.chat {
			one["message"] = map[string]any{
				"role": "assistant", "content": string(c.content), "refusal": nil, "annotations": nil, "audio": nil,
				"function_call": nil, "tool_calls": []any{}, "reasoning": nil,
			}
		} else {
			one["text"] = string(c.content)
		}
		choices[i] = one
	}
	object := "text_completion"
	if g.request.chat {
		object = "chat.completion"
	}
	return map[string]any{
		"id": g.id, "object": object, "created": g.created, "model": e.Model, "choices": choices,
		"service_tier": nil, "system_fingerprint": nil, "usage": g.usageSoFar(), "prompt_logprobs": nil,
	}
}
