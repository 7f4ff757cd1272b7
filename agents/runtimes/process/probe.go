package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

const (
	healthPatience = 5 * time.Second
	// The first token of a cold engine can take long: kernels are compiled for it.
	tokenPatience = 2 * time.Minute
	maxAnswer     = 1 << 20
)

// Engines are near: a proxy that the agent uses to get out is not for them.
var local = &http.Client{Transport: &http.Transport{
	DialContext:         (&net.Dialer{Timeout: healthPatience}).DialContext,
	MaxIdleConnsPerHost: 2,
	IdleConnTimeout:     30 * time.Second,
}}

// probe asks an engine how it is.
type probe struct {
	engine engines.Engine
	base   string // http://host:port
	spec   factory.ReplicaSpec
}

// silence is no answer at all.
type silence struct{ error }

// health asks for the engine's own opinion.
func (p probe) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	status, body, err := p.ask(ctx, http.MethodGet, p.engine.HealthPath, nil)
	if err == nil && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) {
		// An engine that is watched may be another than was thought, or older.
		status, body, err = p.ask(ctx, http.MethodGet, "/v1/models", nil)
	}
	switch {
	case err != nil:
		return err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return errors.New(wantsKey)
	case status/100 != 2:
		return fmt.Errorf("it answers its health check with %d%s", status, said(body))
	}
	return nil
}

const wantsKey = "it wants an API key, which neither the agent nor the gateway has; run it without one, on an address that only they reach"

// token gets a real token out of the engine and returns the name that it serves
// the model under.
func (p probe) token(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	name, err := p.name(ctx)
	if err != nil {
		return "", err
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	if p.spec.Embedding {
		_, err := p.make(ctx, "/v1/embeddings", map[string]any{"model": name, "input": "ready"})
		return name, err
	}
	status, err := p.make(ctx, "/v1/chat/completions", map[string]any{
		"model": name, "max_tokens": 1, "messages": []message{{"user", "Hi"}}})
	// Base models have no chat template; they complete.
	if err != nil && slices.Contains([]int{400, 404, 405, 422, 500, 501}, status) {
		if _, e := p.make(ctx, "/v1/completions", map[string]any{"model": name, "max_tokens": 1, "prompt": "Hi"}); e == nil {
			return name, nil
		}
	}
	return name, err
}

// name is the name to ask under: the expected one, and for an engine that was here
// before, whatever its only model is called.
func (p probe) name(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	status, body, err := p.ask(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
		return p.spec.ServedName, nil // not every engine lists; the answer will tell
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	switch {
	case slices.Contains(ids, p.spec.ServedName):
		return p.spec.ServedName, nil
	case p.spec.Address != "" && slices.Contains(ids, p.spec.Location):
		return p.spec.Location, nil
	case p.spec.Address != "" && len(ids) == 1:
		return ids[0], nil
	case p.spec.Address != "":
		return "", fmt.Errorf("it serves several models (%s) and none is called %s: give the deployment one of these names as public name", strings.Join(ids, ", "), p.spec.ServedName)
	}
	return "", fmt.Errorf("it serves %s and not %s: remove the argument that renames the model", strings.Join(ids, ", "), p.spec.ServedName)
}

// make asks for something to be made and looks whether it was.
func (p probe) make(ctx context.Context, path string, request any) (int, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	status, answer, err := p.ask(ctx, http.MethodPost, path, body)
	switch {
	case err != nil:
		return 0, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return status, errors.New(wantsKey)
	case status != http.StatusOK:
		return status, fmt.Errorf("it answers a first request with %d%s", status, said(answer))
	}
	var got struct {
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content          *string `json:"content"`
				Reasoning        *string `json:"reasoning"`
				ReasoningContent *string `json:"reasoning_content"`
			} `json:"message"`
		} `json:"choices"`
		Data []struct {
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return status, fmt.Errorf("its answer to a first request is not what engines answer: %w", err)
	}
	has := got.Usage.CompletionTokens > 0
	for _, c := range got.Choices {
		for _, text := range []*string{&c.Text, c.Message.Content, c.Message.Reasoning, c.Message.ReasoningContent} {
			has = has || (text != nil && *text != "")
		}
	}
	for _, d := range got.Data {
		has = has || len(d.Embedding) > 2
	}
	if !has {
		return status, errors.New("it answers a first request without a token")
	}
	return status, nil
}

func (p probe) ask(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := local.Do(req)
	if err != nil {
		return 0, nil, silence{plainError(err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, silence{plainError(err)}
	}
	return resp.StatusCode, answer, nil
}

// plainError is a network error without the request around it.
func plainError(err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	case errors.As(err, &dns):
		return errors.New("the name " + dns.Name + " is not known")
	}
	if u := errors.Unwrap(err); u != nil {
		return u
	}
	return err
}

// said is what an engine says with a refusal.
func said(body []byte) string {
	var envelope struct {
		Error json.RawMessage `json:"error"`
		// Some answer without an envelope.
		Message string `json:"message"`
		Detail  any    `json:"detail"`
	}
	text := ""
	if json.Unmarshal(body, &envelope) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(envelope.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(envelope.Error, &text) == nil:
		case envelope.Message != "":
			text = envelope.Message
		case envelope.Detail != nil:
			text = fmt.Sprint(envelope.Detail)
		}
	}
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return ""
	}
	return " (" + clip(text) + ")"
}
