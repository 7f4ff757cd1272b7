package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func TestGS01CharactersCutBetweenReadsArriveWhole(t *testing.T) {
	parts := []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xE5\x8C", "\x97\xE4\xBA\xAC\xF0\x9F", "\x8C\x8D\"}}]}\n\n" + done,
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for _, p := range parts {
			sse(w, p)
			time.Sleep(20 * time.Millisecond)
		}
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if want := strings.Join(parts, ""); r.body != want {
		t.Errorf("client got %q, want %q", r.body, want)
	}
	if text := gjson.Get(dataEvents(r.body)[0], "choices.0.delta.content").String(); text != "北京🌍" {
		t.Errorf("text is %q", text)
	}
	if strings.Contains(r.body, "\uFFFD") {
		t.Error("a character was replaced")
	}
}

func TestGS02FramingWithCRLFAndWithoutSpaceIsMetered(t *testing.T) {
	events := []string{
		`data:{"id":"c1","choices":[{"index":0,"delta":{"content":"ok"}}]}`,
		`data:{"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`,
		`data:[DONE]`,
	}
	for name, cut := range map[string]bool{"whole": false, "cut between CR and LF": true} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				for _, ev := range events {
					if cut {
						sse(w, ev+"\r", "\n\r", "\n")
					} else {
						sse(w, ev+"\r\n\r\n")
					}
				}
			})
			b := newBench(t, []string{e.URL})
			r := b.chat(streamed)
			if got := dataEvents(r.body); len(got) != 2 || got[1] != "[DONE]" || !strings.Contains(got[0], `"ok"`) {
				t.Errorf("client got %q", got)
			}
			wantTokens(t, b.row(1), 7, 1, "", 200)
		})
	}
}

func TestGS03CommentsAreNoData(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for range 3 {
			sse(w, ": still working\n\n")
			time.Sleep(10 * time.Millisecond)
		}
		sse(w, delta("a"), delta("b"), done)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if got := dataEvents(r.body); len(got) != 3 {
		t.Errorf("%d data events reach the client: %q", len(got), got)
	}
	if n := strings.Count(r.body, ": still working\n\n"); n != 3 {
		t.Errorf("%d comments reach the client", n)
	}
	wantTokens(t, b.row(1), 0, 2, "estimated", 200)
	if u := b.row(1); *u.TTFTMS < 25 {
		t.Errorf("a comment counted as the first token: TTFT %v ms", *u.TTFTMS)
	}
}

func TestGS04AVeryLongLinePasses(t *testing.T) {
	long := strings.Repeat("a", 4_194_304)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`+long+`"}}]}}]}`+"\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1000,"total_tokens":1010}}`+"\n\n", done)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if r.status != 200 || gjson.Get(dataEvents(r.body)[0], "choices.0.delta.tool_calls.0.function.arguments").String() != long {
		t.Errorf("status %d, %d bytes", r.status, len(r.body))
	}
	wantTokens(t, b.row(1), 10, 1000, "", 200)
}

func TestGS05OnlyWhoAsksSeesUsage(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("a"), delta("b"), usage, done) })
	b := newBench(t, []string{e.URL})
	for i, c := range []struct {
		body string
		want int
	}{
		{streamed, 0},
		{`{"model":"demo-small","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, 1},
		{`{"model":"demo-small","stream":true,"stream_options":{"include_usage":false,"x":1},"messages":[]}`, 0},
		{`{"stream_options":null,"model":"demo-small","stream":true,"messages":[]}`, 0},
	} {
		r := b.chat(c.body)
		empty := 0
		events := dataEvents(r.body)
		for j, ev := range events {
			if ev != "[DONE]" && len(gjson.Get(ev, "choices").Array()) == 0 {
				empty++
				if j != len(events)-2 {
					t.Error("the usage chunk is not right before [DONE]")
				}
			}
		}
		if empty != c.want || len(events) != 3+c.want {
			t.Errorf("%s: %d empty chunks, want %d: %q", c.body, empty, c.want, events)
		}
		sent := e.seen()[i].body
		if !gjson.Get(sent, "stream_options.include_usage").Bool() || !gjson.Valid(sent) {
			t.Errorf("the engine was sent %s", sent)
		}
		wantTokens(t, b.row(i+1), 5, 2, "", 200)
	}
	if sent := e.seen()[2].body; gjson.Get(sent, "stream_options.x").Int() != 1 {
		t.Errorf("another option was lost: %s", sent)
	}
}

func TestGS06EventsArriveOneByOne(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			// The engine writes an event only after the client has seen the one before: a
			// gateway that holds anything back stops here for good.
			next := make(chan bool)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				sse(w, role)
				for i := range 20 {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
					sse(w, delta(fmt.Sprintf("%0200d", i)))
				}
				<-next
				sse(w, done)
			})
			b := newBench(t, []string{e.URL})
			front := start(b.g)
			defer front.Close()
			req := b.request("POST", "/v1/chat/completions", streamed)
			req.URL.Scheme, req.URL.Host, _ = strings.Cut(front.URL, "://")
			resp, err := front.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for k, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Length": ""} {
				if got := resp.Header.Get(k); got != want {
					t.Errorf("%s is %q, want %q", k, got, want)
				}
			}
			in := newEventReader(resp.Body)
			stuck := time.AfterFunc(20*time.Second, func() { resp.Body.Close() })
			defer stuck.Stop()
			for i := range 22 {
				for {
					if _, ok := in.next(); ok {
						break
					}
					if err := in.fill(); err != nil {
						t.Fatalf("event %d: %v", i, err)
					}
				}
				if i < 21 {
					next <- true
				}
			}
		})
	}
}

func TestGS08ToolCallsAndUnknownFieldsPassUntouched(t *testing.T) {
	chunks := []string{
		`data: {"model":"demo-small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n",
		`data: {"model":"demo-small", "choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}],"x_engine":{"k":[1,2]}}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b2","type":"function","function":{"name":"g","arguments":"{}"}}]}}],"n":1.0e0}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n",
		done,
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, chunks...) })
	b := newBench(t, []string{e.URL})
	if r := b.chat(streamed); r.body != strings.Join(chunks, "") {
		t.Errorf("client got\n%s", r.body)
	}
}
