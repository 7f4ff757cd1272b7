package gateway

import (
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"tokenfactory/factory"
)

// everyLimit sets every kind of limit, wide enough for a benchmark.
var everyLimit = factory.Limits{RequestsPerMinute: 10_000_000, TokensPerMinute: 1_000_000_000, InputTokensPerMinute: 1_000_000_000,
	OutputTokensPerMinute: 1_000_000_000, ConcurrentRequests: 1_000_000, Budget: "1000000000"}

// What limits cost a request: claims, reservation, headers and settlement, with
// nothing around them.
func BenchmarkLimits(b *testing.B) {
	for _, c := range []struct {
		name   string
		limits [3]factory.Limits
	}{
		{"none", [3]factory.Limits{}},
		{"requests of the key", [3]factory.Limits{{RequestsPerMinute: 10_000_000}}},
		{"requests and tokens of the key", [3]factory.Limits{{RequestsPerMinute: 10_000_000, TokensPerMinute: 1_000_000_000}}},
		{"all of the key", [3]factory.Limits{everyLimit}},
		{"all of key, tenant and deployment", [3]factory.Limits{everyLimit, everyLimit, everyLimit}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := counting(b, "4", "8", nil)
			l := newLimited(b, factory.ScopeKey, c.limits[0], e.URL)
			price := p1
			r := &route{Route: factory.Route{Deployment: factory.Deployment{ID: "dep", Price: &price}}, rates: ratesOf(&price)}
			r.Deployment.Limits, r.Deployment.LLM.ContextLength = c.limits[2], 131072
			key := factory.Key{ID: "key1", TenantID: "tenant1", Limits: c.limits[0], TenantLimits: c.limits[1]}
			body := []byte(with(`,"max_tokens":100`, false))
			row := factory.Usage{KeyID: "key1", TenantID: "tenant1", DeploymentID: "dep", PromptTokens: 4, CompletionTokens: 8, StartedAt: time.Now()}
			b.ReportAllocs()
			req, w := l.request("POST", "/", ""), httptest.NewRecorder()
			n := 0
			for b.Loop() {
				n++
				x := &exchange{g: l.g, w: w, r: req, id: strconv.Itoa(n), key: key, route: r, request: &request{body: body}, beganAt: row.StartedAt}
				if p := x.reserve(); p != nil {
					b.Fatal(p.message)
				}
				x.settleLimits(&row, place{row: int64(n)})
			}
		})
	}
}
