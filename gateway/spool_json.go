package gateway

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"tokenfactory/factory"
)

// appendUsage writes a row as encoding/json would, field by field: it is done for
// every request, between the answer and its last byte. A test keeps the two alike.
func appendUsage(b []byte, u *factory.Usage) ([]byte, error) {
	b = append(b, '{')
	for _, f := range [...]struct{ name, value string }{
		{"id", u.ID}, {"tenant_id", u.TenantID}, {"key_id", u.KeyID}, {"deployment_id", u.DeploymentID}, {"replica_id", u.ReplicaID},
		{"price_id", u.PriceID}, {"endpoint", u.Endpoint}, {"model_asked", u.ModelAsked}, {"model_served", u.ModelServed}, {"flags", u.Flags},
	} {
		b = append(appendText(appendName(b, f.name), f.value), ',')
	}
	for _, f := range [...]struct {
		name  string
		value int64
	}{
		{"status", int64(u.Status)}, {"attempts", int64(u.Attempts)},
		{"prompt_tokens", u.PromptTokens}, {"cached_tokens", u.CachedTokens}, {"completion_tokens", u.CompletionTokens},
	} {
		b = append(strconv.AppendInt(appendName(b, f.name), f.value, 10), ',')
	}
	b = append(strconv.AppendBool(appendName(b, "stream"), u.Stream), ',')
	for _, f := range [...]struct {
		name  string
		value *float64
	}{{"queue_ms", u.QueueMS}, {"ttft_ms", u.TTFTMS}, {"e2e_ms", u.E2EMS}} {
		b = appendName(b, f.name)
		if f.value == nil {
			b = append(b, "null,"...)
			continue
		}
		if math.IsNaN(*f.value) || math.IsInf(*f.value, 0) {
			return nil, errors.New(f.name + " is no number")
		}
		b = append(strconv.AppendFloat(b, *f.value, 'f', -1, 64), ',')
	}
	b = append(appendName(b, "started_at"), '"')
	b = u.StartedAt.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"', '}'), nil
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"', ':')
}

// appendText quotes a text. What needs more than quotes is rare: names of models
// have it at most.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // texts can always be written
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
