package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const maxBody = 64 << 20

// request is a chat or text completion, read and checked.
type request struct {
	chat    bool
	prompts []prompt
	n       int // choices for each prompt
	// limit is the most tokens of a choice; zero leaves the length to the engine.
	limit      int
	seed       uint64
	stream     bool
	usage      bool // one last event with the usage
	continuous bool // the usage on every event
}

type wire struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Prompt        json.RawMessage `json:"prompt"`
	Tools         json.RawMessage `json:"tools"`
	MaxTokens     *int            `json:"max_tokens"`
	MaxCompletion *int            `json:"max_completion_tokens"`
	N             *int            `json:"n"`
	Seed          *int64          `json:"seed"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage    *bool `json:"include_usage"`
		ContinuousUsage bool  `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// decode reads a body; the whole of it, because the server notices that a client
// has left only once nothing of the body is unread.
func decode(w http.ResponseWriter, r *http.Request, into any) *problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &problem{http.StatusRequestEntityTooLarge, "RequestTooLarge", "", fmt.Sprintf("The body is larger than %d MiB.", maxBody>>20)}
	}
	if err != nil {
		return badRequest("", "The body could not be read.")
	}
	if err := json.Unmarshal(body, into); err != nil {
		wrong := (*json.UnmarshalTypeError)(nil)
		if errors.As(err, &wrong) {
			return badRequest(wrong.Field, "The field "+wrong.Field+" has the wrong type.")
		}
		return badRequest("", "The body is not valid JSON: "+err.Error())
	}
	return nil
}

func (e *Engine) unknown(model string) *problem {
	if model == "" || model == e.Model {
		return nil
	}
	return &problem{http.StatusNotFound, "NotFoundError", "model", "The model `" + model + "` does not exist."}
}

func (e *Engine) read(w http.ResponseWriter, r *http.Request, chat bool) (request, *problem) {
	var in wire
	if p := decode(w, r, &in); p != nil {
		return request{}, p
	}
	if p := e.unknown(in.Model); p != nil {
		return request{}, p
	}
	req := request{chat: chat, n: 1, stream: in.Stream, seed: e.Seed}
	if in.N != nil {
		req.n = *in.N
	}
	if in.Seed != nil {
		req.seed ^= uint64(*in.Seed) * 0x9e3779b97f4a7c15 // spreads small seeds
	}
	limit, param := in.MaxTokens, "max_tokens"
	if chat && in.MaxCompletion != nil {
		limit, param = in.MaxCompletion, "max_completion_tokens"
	}
	switch {
	case req.n < 1 || req.n > 128:
		return request{}, badRequest("n", "n must be between 1 and 128.")
	case limit != nil && *limit < 1:
		return request{}, badRequest(param, param+" must be at least 1.")
	case in.StreamOptions != nil && !in.Stream:
		return request{}, badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	case limit != nil:
		req.limit = *limit
	case !chat:
		req.limit = 16 // what the text API has always done
	}
	if o := in.StreamOptions; o != nil {
		req.usage = o.IncludeUsage == nil || *o.IncludeUsage
		req.continuous = req.usage && o.ContinuousUsage
	}
	return req, e.fill(&req, in)
}

// fill reads the prompts and checks that they and the answer fit the context.
func (e *Engine) fill(req *request, in wire) *problem {
	var p *problem
	if req.chat {
		if len(in.Messages) == 0 {
			return badRequest("messages", "Give at least one message.")
		}
		req.prompts = make([]prompt, 1)
		req.prompts[0], p = chatPrompt(in.Messages, in.Tools)
	} else {
		req.prompts, p = inputs(in.Prompt, "prompt")
	}
	if p != nil {
		return p
	}
	for _, one := range req.prompts {
		if want := one.tokens + max(req.limit, 1); want > e.ContextLength {
			return badRequest("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the input, %d for the answer). Please reduce the length of the input or of the answer.",
				e.ContextLength, want, one.tokens, max(req.limit, 1)))
		}
	}
	return nil
}
