// Package shared is how models look to those who call them: the name to send, the
// address to send it to, and the price.
package shared

import (
	"encoding/json"
	"strings"

	"tokenfactory/factory"
)

// Card is one model that a tenant may use, as it stands now.
type Card struct {
	factory.Deployment
	State   factory.State
	BaseURL string
}

// Alias is another name that leads the tenant to some of its models.
type Alias struct {
	Name      string
	Targets   []AliasTarget
	Fallbacks []string // names of models, in the order in which they are tried
}

// AliasTarget is a model behind an alias, with its part of the weights.
type AliasTarget struct {
	Model string
	Share string
}

func (c Card) about() string {
	parts := []string{c.LLM.ProviderName}
	if c.LLM.Description != "" {
		parts = append(parts, c.LLM.Description)
	}
	if c.Workload == factory.Batch {
		parts = append(parts, "for batch work")
	}
	return strings.Join(parts, " · ")
}

func (c Card) context() int {
	if c.ContextLength > 0 {
		return c.ContextLength
	}
	return c.LLM.ContextLength
}

func (c Card) cachedPrice() string {
	if c.CachedInputPrice == "" {
		return c.InputPrice
	}
	return c.CachedInputPrice
}

// note says in the caller's words what a state means for them; how engines and
// machines stand is not theirs to see.
func (c Card) note() string {
	switch c.State {
	case factory.Ready:
		return ""
	case factory.Degraded:
		return "It answers, with less capacity than usual."
	case factory.Stopped, factory.Stopping:
		return "It is switched off. Requests are refused until an operator starts it."
	case factory.Asleep:
		return "It rests. The next request wakes it, and waits until it has loaded."
	case factory.Failed:
		return "It does not run at the moment. Requests are refused until that is repaired."
	}
	return "It is coming up. Requests are refused until it is ready; clients that try again will get through."
}

// rates are the limits that a caller can do something about; how much money all
// clients may spend is the operators' affair.
func (c Card) rates() factory.Limits {
	l := c.Limits
	l.Budget, l.BudgetCurrency, l.BudgetPeriod = "", "", ""
	return l
}

func (c Card) route() string {
	if c.LLM.Embedding {
		return "/embeddings"
	}
	return "/chat/completions"
}

// Sample is a request to copy; key is put where the secret goes.
func (c Card) Sample(key string) string {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := struct {
		Model    string    `json:"model"`
		Input    string    `json:"input,omitempty"`
		Messages []message `json:"messages,omitempty"`
	}{Model: c.PublicName}
	if c.LLM.Embedding {
		body.Input = "Hello"
	} else {
		body.Messages = []message{{"user", "Hello"}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	return "curl " + c.BaseURL + c.route() + " \\\n  -H \"Authorization: Bearer " + key + "\" \\\n  -H \"Content-Type: application/json\" \\\n  -d " + quoted(string(text))
}

// quoted makes one word of a POSIX shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
