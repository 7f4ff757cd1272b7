package sim

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// events writes a generation as server-sent events. The bytes are put together by
// hand: with hundreds of streams most of the work would be encoding JSON.
type events struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	g    *generation
	head []byte // of every event, up to its choices
	buf  []byte
}

func (e *Engine) stream(w http.ResponseWriter, r *http.Request, g *generation) {
	object := "text_completion"
	if g.request.chat {
		object = "chat.completion.chunk"
	}
	name, _ := json.Marshal(e.Model)
	s := &events{w: w, rc: http.NewResponseController(w), g: g}
	s.head = append(s.head, `data: {"id":"`+g.id+`","object":"`+object+`","created":`...)
	s.head = strconv.AppendInt(s.head, g.created, 10)
	s.head = append(s.head, `,"model":`...)
	s.head = append(s.head, name...)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	// As vLLM does: the header is out long before the first token.
	if s.rc.Flush() != nil || e.generate(r.Context(), g, s.deliver) != nil {
		return
	}
	s.buf = s.buf[:0]
	if g.usage {
		s.buf = append(s.buf, s.head...)
		s.buf = append(s.buf, `,"choices":[]`...)
		s.total(g.usageSoFar())
		s.buf = append(s.buf, "}\n\n"...)
	}
	s.buf = append(s.buf, "data: [DONE]\n\n"...)
	_ = s.send()
}

// deliver writes what every choice made just now.
func (s *events) deliver(first bool) error {
	s.buf = s.buf[:0]
	if first && s.g.request.chat {
		for i := range s.g.choices {
			c := &s.g.choices[i]
			s.event(i, c, `"delta":{"role":"assistant","content":"`, nil, `"}`, "", 0)
		}
	}
	for i := range s.g.choices {
		c := &s.g.choices[i]
		if len(c.piece) == 0 {
			continue
		}
		reason := ""
		if c.done() && c.reason == "length" {
			reason = c.reason
		}
		s.text(i, c, c.piece, reason)
		// An end that the model chose comes as an event without text.
		if c.done() && reason == "" {
			s.text(i, c, nil, c.reason)
		}
	}
	return s.send()
}

func (s *events) text(index int, c *choice, piece []byte, reason string) {
	if s.g.request.chat {
		s.event(index, c, `"delta":{"content":"`, piece, `"}`, reason, c.made)
		return
	}
	s.event(index, c, `"text":"`, piece, `"`, reason, c.made)
}

func (s *events) event(index int, c *choice, before string, piece []byte, after, reason string, made int) {
	b := append(s.buf, s.head...)
	b = append(b, `,"choices":[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, ',')
	b = append(b, before...)
	b = append(b, piece...)
	b = append(b, after...)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if reason == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, `"`+reason+`","stop_reason":null`...)
	}
	s.buf = append(b, "}]"...)
	// Running usage is of this choice alone; only the last event sums them up.
	if s.g.continuous {
		s.total(usage{Prompt: c.prompt, Total: c.prompt + made, Completion: made})
	}
	s.buf = append(s.buf, "}\n\n"...)
}

func (s *events) total(u usage) {
	b := append(s.buf, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Total), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Completion), 10)
	if u.Details != nil {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(u.Details.Cached), 10)
		b = append(b, '}')
	}
	s.buf = append(b, '}')
}

func (s *events) send() error {
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.rc.Flush()
}
