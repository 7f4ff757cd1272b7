package factory

import "testing"

func TestBaseURLIsWhatClientsReach(t *testing.T) {
	for _, c := range []struct{ hostname, gateway, want string }{
		{"", "http://10.0.0.5:8080", "http://10.0.0.5:8080/v1"},
		{"", "https://factory.example.org/", "https://factory.example.org/v1"},
		{"llm.example.org", "https://factory.example.org", "https://llm.example.org/v1"},
		{"llm.example.org", "http://10.0.0.5:8080", "http://llm.example.org:8080/v1"},
	} {
		if got := (Endpoint{Hostname: c.hostname}).BaseURL(c.gateway); got != c.want {
			t.Errorf("%q under %s: %s, want %s", c.hostname, c.gateway, got, c.want)
		}
	}
}
