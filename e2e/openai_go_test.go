package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// goCases are the cases of openai_cases.mjs with the official client for Go.
type goCases struct {
	t     *testing.T
	setup clientSetup
	app   openai.Client
	r     clientReport
}

// goClient walks through them one by one.
func goClient(t *testing.T, setup clientSetup) clientReport {
	t.Helper()
	c := &goCases{t: t, setup: setup}
	c.app, _ = c.client("app")
	for _, work := range []func(context.Context) error{
		c.models, c.plain, c.streams, c.tools, c.schema, c.probe, c.cancelled, c.broken, c.concurrency, c.quota, c.embeddings, c.rate,
	} {
		if err := work(t.Context()); err != nil {
			t.Errorf("the client for Go: %v", err)
		}
	}
	return c.r
}

// client makes one that notes the status of every answer, retries among them.
func (c *goCases) client(key string, more ...option.RequestOption) (openai.Client, *[]int) {
	statuses := &[]int{}
	note := option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil {
			*statuses = append(*statuses, resp.StatusCode)
		}
		return resp, err
	})
	options := append([]option.RequestOption{option.WithBaseURL(c.setup.Base), option.WithAPIKey(c.setup.Keys[key]), note}, more...)
	return openai.NewClient(options...), statuses
}

func (c *goCases) chat(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: c.setup.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func (c *goCases) models(ctx context.Context) error {
	pages := c.app.Models.ListAutoPaging(ctx)
	for pages.Next() {
		c.r.Models.IDs = append(c.r.Models.IDs, pages.Current().ID)
	}
	one, err := c.app.Models.Get(ctx, c.setup.Model)
	if err == nil {
		c.r.Models.Retrieved = one.ID
	}
	return errors.Join(pages.Err(), err)
}

func (c *goCases) plain(ctx context.Context) error {
	var answer *http.Response
	r, err := c.app.Chat.Completions.New(ctx, c.chat(askValves), option.WithResponseInto(&answer))
	if err != nil {
		return err
	}
	p := &c.r.Plain
	p.ID, p.Model, p.Text, p.Reason = answer.Header.Get("X-Request-Id"), r.Model, r.Choices[0].Message.Content, r.Choices[0].FinishReason
	p.Prompt, p.Completion, p.Unknown = r.Usage.PromptTokens, r.Usage.CompletionTokens, r.JSON.ExtraFields["x_engine"].Raw()
	return nil
}

func (c *goCases) streams(ctx context.Context) error {
	params := c.chat(askValves)
	if err := c.stream(ctx, params, &c.r.Streamed); err != nil {
		return err
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	return c.stream(ctx, params, &c.r.Counted)
}

func (c *goCases) stream(ctx context.Context, params openai.ChatCompletionNewParams, out *textReport) error {
	var answer *http.Response
	s := c.app.Chat.Completions.NewStreaming(ctx, params, option.WithResponseInto(&answer))
	for s.Next() {
		chunk := s.Current()
		out.Chunks++
		out.Model = chunk.Model
		if chunk.JSON.Usage.Valid() {
			out.Usages++
			out.Prompt, out.Completion = chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens
		}
		for _, choice := range chunk.Choices {
			out.Text += choice.Delta.Content
			if choice.FinishReason != "" {
				out.Reason = choice.FinishReason
			}
		}
	}
	if s.Err() != nil {
		return s.Err()
	}
	out.ID = answer.Header.Get("X-Request-Id")
	return nil
}

var weather = shared.FunctionDefinitionParam{
	Name:        "get_weather",
	Description: openai.String("The weather in a city."),
	Parameters: shared.FunctionParameters{"type": "object", "required": []string{"city"},
		"properties": map[string]any{"city": map[string]string{"type": "string"}, "unit": map[string]string{"type": "string"}}},
}

func (c *goCases) tools(ctx context.Context) error {
	params := c.chat(askTool)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(weather)}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("auto")}
	plain, err := c.app.Chat.Completions.New(ctx, params)
	if err != nil {
		return err
	}
	var streamed openai.ChatCompletionAccumulator
	s := c.app.Chat.Completions.NewStreaming(ctx, params)
	for s.Next() {
		streamed.AddChunk(s.Current())
	}
	if s.Err() != nil {
		return s.Err()
	}
	for answer, out := range map[*openai.ChatCompletion]*toolReport{plain: &c.r.Tool, &streamed.ChatCompletion: &c.r.StreamedTool} {
		message := answer.Choices[0].Message
		call := message.ToolCalls[0]
		*out = toolReport{Calls: len(message.ToolCalls), ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments, Reason: answer.Choices[0].FinishReason}
		next := params
		next.Messages = append(next.Messages[:1:1], message.ToParam(), openai.ToolMessage("21 degrees", call.ID))
		last, err := c.app.Chat.Completions.New(ctx, next)
		if err != nil {
			return err
		}
		out.Text = last.Choices[0].Message.Content
	}
	return nil
}

func (c *goCases) schema(ctx context.Context) error {
	params := c.chat(askSchema)
	params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "weather", Strict: openai.Bool(true), Schema: map[string]any{"type": "object"},
	}}
	r, err := c.app.Chat.Completions.New(ctx, params)
	if err == nil {
		c.r.Schema = r.Choices[0].Message.Content
	}
	return err
}

func (c *goCases) probe(ctx context.Context) error {
	client, statuses := c.client("app")
	began := time.Now()
	s := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
		Model: c.setup.Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(askTool)},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: weather.Name, Parameters: weather.Parameters}}},
	})
	for s.Next() {
		c.t.Errorf("an event of an API that the engine does not have: %s", s.Current().RawJSON())
	}
	p := &c.r.Probe
	p.Took, p.Tries = float64(time.Since(began).Milliseconds()), len(*statuses)
	var refusal *openai.Error
	if errors.As(s.Err(), &refusal) {
		p.Status, p.Type, p.Code, p.Message = refusal.StatusCode, refusal.Type, refusal.Code, refusal.Message
	}
	params := c.chat(askTool)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(weather)}
	params.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: weather.Name})
	r, err := client.Chat.Completions.New(ctx, params)
	if err == nil {
		p.Called = r.Choices[0].Message.ToolCalls[0].Function.Name
	}
	return err
}

func (c *goCases) cancelled(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answer *http.Response
	params := c.chat(askOn)
	params.User = openai.String(c.setup.User)
	s := c.app.Chat.Completions.NewStreaming(ctx, params, option.WithResponseInto(&answer))
	out := &c.r.Cancelled
	for out.Tokens < 5 && s.Next() {
		if choices := s.Current().Choices; len(choices) > 0 && choices[0].Delta.Content != "" {
			out.Tokens++
		}
	}
	cancel()
	out.At, out.ID = time.Now().UnixMilli(), answer.Header.Get("X-Request-Id")
	return s.Err()
}

func (c *goCases) broken(ctx context.Context) error {
	var answer *http.Response
	s := c.app.Chat.Completions.NewStreaming(ctx, c.chat(askDie), option.WithResponseInto(&answer))
	out := &c.r.Broken
	for s.Next() {
		if choices := s.Current().Choices; len(choices) > 0 && choices[0].Delta.Content != "" {
			out.Tokens++
		}
	}
	if s.Err() != nil {
		out.Error = s.Err().Error()
	}
	out.ID = answer.Header.Get("X-Request-Id")
	return nil
}

func (c *goCases) concurrency(ctx context.Context) error {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	// The stream is left as soon as the other request has been refused once.
	leave := option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			cancel()
		}
		return resp, err
	})
	one, statuses := c.client("single", option.WithMaxRetries(6), leave)
	s := one.Chat.Completions.NewStreaming(streaming, c.chat(askOn))
	if !s.Next() {
		return s.Err()
	}
	r, err := one.Chat.Completions.New(ctx, c.chat(askValves))
	c.r.Concurrency.Statuses = *statuses
	if err == nil {
		c.r.Concurrency.Text = r.Choices[0].Message.Content
	}
	return err
}

func (c *goCases) quota(ctx context.Context) error {
	poor, statuses := c.client("poor")
	_, err := poor.Chat.Completions.New(ctx, c.chat(askValves))
	q := &c.r.Quota
	q.Statuses = *statuses
	var refusal *openai.Error
	if !errors.As(err, &refusal) {
		return err
	}
	q.Status, q.Type, q.Code = refusal.StatusCode, refusal.Type, refusal.Code
	return nil
}

func (c *goCases) embeddings(ctx context.Context) error {
	r, err := c.app.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: c.setup.Model,
		Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("three little words")}})
	if err != nil {
		return err
	}
	for _, f := range r.Data[0].Embedding {
		c.r.Embeddings.Vector = append(c.r.Embeddings.Vector, float32(f))
	}
	c.r.Embeddings.Prompt = r.Usage.PromptTokens
	return nil
}

func (c *goCases) rate(ctx context.Context) error {
	time.Sleep(time.Until(time.UnixMilli(c.setup.Full)))
	slow, statuses := c.client("slow")
	r, err := slow.Chat.Completions.New(ctx, c.chat(askValves))
	c.r.Rate.Statuses = *statuses
	if err == nil {
		c.r.Rate.Text = r.Choices[0].Message.Content
	}
	return err
}
