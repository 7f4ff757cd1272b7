package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// RR-06: who asks for an alias never sees another name, in no answer and no event of
// any API; the engine only sees its own, and the ledger has both.
func TestRR06AliasIsTheNameThatClientsSee(t *testing.T) {
	t.Parallel()
	const alias = "fast"
	engine := newStub(t)
	h, key := watching(t, "", "vllm", engine)
	h.apply("kind: alias\nname: " + alias + "\nspec: {targets: [{deployment: small, weight: 1}]}\n")

	c := openai.NewClient(option.WithBaseURL(h.base+"/v1"), option.WithAPIKey(key))
	var ids []string
	asked := map[string]string{} // what was asked for, by request id
	note := func(what string, answer *http.Response) { asked[answer.Header.Get("X-Request-Id")] = what }
	h.wait("the alias is listed", func() bool {
		list, err := c.Models.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids = nil
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		return slices.Contains(ids, alias)
	})
	if len(ids) != 2 || !slices.Contains(ids, smallModel) {
		t.Errorf("models are %q", ids)
	}
	if one, err := c.Models.Get(t.Context(), alias); err != nil || one.ID != alias {
		t.Errorf("retrieved %+v, %v", one, err)
	}

	var answer *http.Response
	chat := openai.ChatCompletionNewParams{Model: alias, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(askValves)}}
	plain, err := c.Chat.Completions.New(t.Context(), chat, option.WithResponseInto(&answer))
	if err != nil {
		t.Fatal(err)
	}
	note("plain chat", answer)
	if plain.Model != alias || plain.Choices[0].Message.Content != valveText {
		t.Errorf("plain chat: %s", plain.RawJSON())
	}
	chunks := c.Chat.Completions.NewStreaming(t.Context(), chat, option.WithResponseInto(&answer))
	for chunks.Next() {
		if chunks.Current().Model != alias {
			t.Errorf("a chunk says %q", chunks.Current().Model)
		}
	}
	if chunks.Err() != nil {
		t.Error(chunks.Err())
	}
	note("streamed chat", answer)

	respond := responses.ResponseNewParams{Model: alias, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(askValves)}}
	whole, err := c.Responses.New(t.Context(), respond, option.WithResponseInto(&answer))
	if err != nil {
		t.Fatal(err)
	}
	note("plain response", answer)
	if whole.Model != alias || whole.OutputText() != valveText || whole.Usage.OutputTokens != valvesUsed.completion {
		t.Errorf("plain response: %s", whole.RawJSON())
	}
	events := c.Responses.NewStreaming(t.Context(), respond, option.WithResponseInto(&answer))
	text, ended := "", false
	for events.Next() {
		e := events.Current()
		text += e.Delta
		ended = ended || e.Type == "response.completed"
		if e.JSON.Response.Valid() && e.Response.Model != alias || strings.Contains(e.RawJSON(), smallModel) {
			t.Errorf("an event says %s", e.RawJSON())
		}
	}
	if events.Err() != nil || text != valveText || !ended {
		t.Errorf("streamed response: %q, ended %t, %v", text, ended, events.Err())
	}
	note("streamed response", answer)

	for _, a := range engine.requests(askValves) {
		if strings.Contains(a.body, alias) || !strings.Contains(a.body, `"`+smallModel+`"`) {
			t.Errorf("the engine got %s", a.body)
		}
	}
	var rows map[string]ledgerRow
	h.wait("the requests are booked", func() bool {
		rows = map[string]ledgerRow{}
		for _, r := range h.ledger() {
			if asked[r.ID] != "" {
				rows[r.ID] = r
			}
		}
		return len(rows) == len(asked)
	})
	for id, what := range asked {
		r := rows[id]
		if r.ModelAsked != alias || r.ModelServed != smallModel || r.Flags != "" || (seen{r.PromptTokens, r.CompletionTokens}) != valvesUsed {
			t.Errorf("%s is booked as %+v", what, r)
		}
	}
}
