package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// streamFrom asks for a long stream and reads its first event.
func streamFrom(ctx context.Context, t *testing.T, h *house, key string) (*http.Response, *bufio.Reader) {
	t.Helper()
	body := `{"model":"` + smallModel + `","stream":true,"max_tokens":2000,"messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%s %q: %v", resp.Status, line, err)
		}
		if strings.HasPrefix(line, "data: ") && strings.Contains(line, `"content":"`) {
			return resp, r
		}
	}
}

// A machine that nobody can reach serves all the same, over the connection that its
// agent made; whichever end is killed, it comes back without hands.
func TestAMachineWithoutAnAddressServesThroughItsTunnel(t *testing.T) {
	h := newHouse(t, "")
	made := h.apply(oneEngine)
	key := secret(t, made, "key", "app", "key")
	data := t.TempDir()
	args := []string{"--server", h.base, "--data", data, "--tunnel"}
	agent := start(t, nil, binary(t, "tokenfactory-agent"), append(args, "--token", secret(t, made, "cluster", "bench", "join_token"))...)
	serves := func() bool {
		_, _, err := chat(context.Background(), h.base, key, hello)
		return err == nil
	}
	h.wait("the engine serves", serves)

	// A client that leaves is billed for what was made, and the engine stops for it.
	ctx, leave := context.WithCancel(t.Context())
	resp, _ := streamFrom(ctx, t, h, key)
	id := resp.Header.Get("x-request-id")
	leave()
	h.wait("the ledger has the stream that was left", func() bool {
		for _, row := range h.ledger() {
			if row.ID == id {
				if !strings.Contains(row.Flags, "aborted") || row.CompletionTokens < 1 || row.CompletionTokens >= 2000 {
					t.Fatalf("the ledger says %+v", row)
				}
				return true
			}
		}
		return false
	})

	// The agent is killed: its streams are cut, and the next agent takes the engine over.
	before, _ := h.replicaPID("small")
	_, cut := streamFrom(t.Context(), t, h, key)
	agent.kill()
	if rest, err := io.ReadAll(cut); err == nil || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("a stream whose tunnel broke ends as a whole one: %v", err)
	}
	start(t, nil, binary(t, "tokenfactory-agent"), args...)
	h.wait("requests are answered again, by the process that was there", func() bool {
		pid, state := h.replicaPID("small")
		return state == "ready" && pid == before && serves()
	})

	h.serve.kill()
	h.startServe()
	h.wait("the tunnel comes back to a server that was killed", serves)
}
