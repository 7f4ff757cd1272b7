package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// byteEngine is an engine whose connections a test serves itself.
type byteEngine struct {
	net.Listener
	mu    sync.Mutex
	conns int
}

func newByteEngine(t *testing.T, serve func(n int, conn net.Conn, in *bufio.Reader)) *byteEngine {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &byteEngine{Listener: ln}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns++
			n := e.conns
			e.mu.Unlock()
			go func() {
				defer conn.Close()
				serve(n, conn, bufio.NewReader(conn))
			}()
		}
	}()
	return e
}

func (e *byteEngine) opened() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conns
}

func newTransport(t *testing.T) *transport {
	t.Helper()
	tr := &transport{dial: (&net.Dialer{}).DialContext, idleFor: time.Minute}
	t.Cleanup(tr.closeIdle)
	return tr
}

func ask(ctx context.Context, tr *transport, address, body string) (*http.Response, bool, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v1/chat/completions", &upload{b: []byte(body)})
	if err != nil {
		return nil, false, err
	}
	return tr.send(req)
}

// mustAsk is for requests that are answered whole.
func mustAsk(t *testing.T, tr *transport, address, body string) (text string, reused bool) {
	t.Helper()
	resp, reused, err := ask(t.Context(), tr, address, body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), reused
}

// drop reads one request and forgets it.
func drop(in *bufio.Reader) (body string, err error) {
	req, err := http.ReadRequest(in)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(req.Body)
	return string(b), err
}

func TestTransportUsesConnectionsAgainWhateverFrameAnAnswerHas(t *testing.T) {
	const length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
	const interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + length
	const empty = "HTTP/1.1 204 No Content\r\n\r\n"
	const closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
	const extra = length + "more than was announced"
	const unframed = "HTTP/1.0 200 OK\r\n\r\nhello"
	for _, c := range []struct {
		name, answer, want string
		kept               bool
	}{
		{"length", length, "hello", true},
		{"chunked", chunked, "hello", true},
		{"interim answers", interim, "hello", true},
		{"empty", empty, "", true},
		{"said to close", closing, "hello", false},
		{"more than announced", extra, "hello", false},
		{"until the end", unframed, "hello", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
				for {
					if body, err := drop(in); err != nil || body != "question" {
						return
					}
					if _, err := io.WriteString(conn, c.answer); err != nil || !c.kept {
						return
					}
				}
			})
			tr := newTransport(t)
			for i := range 3 {
				text, reused := mustAsk(t, tr, e.Addr().String(), "question")
				if text != c.want {
					t.Errorf("answer %q instead of %q", text, c.want)
				}
				if want := c.kept && i > 0; reused != want {
					t.Errorf("request %d went over a used connection: %v instead of %v", i+1, reused, want)
				}
			}
		})
	}
}

// An engine closes connections that were idle for too long; a request must not be
// sent into one that is closed already.
func TestTransportSeesClosedConnections(t *testing.T) {
	closed := make(chan struct{}, 1)
	e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
		if _, err := drop(in); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
		conn.Close()
		closed <- struct{}{}
	})
	tr := newTransport(t)
	for range 3 {
		if text, reused := mustAsk(t, tr, e.Addr().String(), "x"); text != "ok" || reused {
			t.Errorf("answer %q, over a used connection: %v", text, reused)
		}
		<-closed
		time.Sleep(2 * quietFor)
	}
}

func TestTransportClosesWhatIsIdleForTooLong(t *testing.T) {
	ended := make(chan struct{})
	e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
		if _, err := drop(in); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
		if _, err := in.ReadByte(); err == io.EOF {
			close(ended)
		}
	})
	tr := newTransport(t)
	tr.idleFor = 50 * time.Millisecond
	mustAsk(t, tr, e.Addr().String(), "x")
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the idle connection is still open")
	}
	tr.pool.mu.Lock()
	defer tr.pool.mu.Unlock()
	if len(tr.pool.idle) > 0 {
		t.Errorf("%d engines still have idle connections", len(tr.pool.idle))
	}
}

// The context ends a call while its answer is awaited and while it is read, and the
// engine sees it at once.
func TestTransportEndsWithTheContext(t *testing.T) {
	for _, sent := range []string{"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"} {
		noticed := make(chan struct{})
		e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
			if _, err := drop(in); err != nil {
				return
			}
			_, _ = io.WriteString(conn, sent)
			if _, err := in.ReadByte(); err != nil {
				close(noticed)
			}
		})
		why := errors.New("because")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
		tr := newTransport(t)
		resp, _, err := ask(ctx, tr, e.Addr().String(), "x")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		} else if err != why {
			t.Errorf("after %q: error %v", sent, err)
		}
		if err == nil {
			t.Errorf("after %q: no error", sent)
		}
		select {
		case <-noticed:
		case <-time.After(5 * time.Second):
			t.Errorf("after %q: the engine still has its connection", sent)
		}
		if len(tr.pool.idle) > 0 {
			t.Errorf("after %q: the connection was kept", sent)
		}
	}
}

// An engine may refuse a large request before it has read it.
func TestTransportReadsAnEarlyRefusal(t *testing.T) {
	e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
		if _, err := in.Peek(1); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
		time.Sleep(200 * time.Millisecond) // reading nothing
	})
	tr := newTransport(t)
	resp, _, err := ask(t.Context(), tr, e.Addr().String(), strings.Repeat("x", 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 413 || string(text) != "no!" {
		t.Errorf("status %d, answer %q, error %v", resp.StatusCode, text, err)
	}
	if len(tr.pool.idle) > 0 {
		t.Error("a connection with half a request in it was kept")
	}
}

func TestTransportSendsLargeRequestsWhole(t *testing.T) {
	for _, size := range []int{0, 1, together, together + 1, atOnce, atOnce + 1, 5 << 20} {
		want := strings.Repeat("y", size)
		e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
			for {
				body, err := drop(in)
				if err != nil {
					return
				}
				answer := fmt.Sprint(body == want)
				if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer); err != nil {
					return
				}
			}
		})
		tr := newTransport(t)
		for range 2 {
			if text, _ := mustAsk(t, tr, e.Addr().String(), want); text != "true" {
				t.Errorf("a body of %d bytes did not arrive whole", size)
			}
		}
		if n := e.opened(); n != 1 {
			t.Errorf("%d connections for two bodies of %d bytes", n, size)
		}
	}
}

func TestTransportRefusesWhatIsNoAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":          "",
		"no HTTP":          "hello\r\n\r\n",
		"endless header":   "HTTP/1.1 200 OK\r\nX-Pad: " + strings.Repeat("x", maxHeader) + "\r\n\r\n",
		"another protocol": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"interim for ever": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", interims+1),
	} {
		t.Run(name, func(t *testing.T) {
			e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
				if _, err := drop(in); err == nil {
					_, _ = io.WriteString(conn, answer)
				}
			})
			tr := newTransport(t)
			resp, _, err := ask(t.Context(), tr, e.Addr().String(), "x")
			if err == nil {
				t.Errorf("an answer of status %d", resp.StatusCode)
			}
			if len(tr.pool.idle) > 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestTransportTellsATornAnswer(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
	} {
		e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) {
			if _, err := drop(in); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
		})
		resp, _, err := ask(t.Context(), newTransport(t), e.Addr().String(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != io.ErrUnexpectedEOF || string(text) != "hello" {
			t.Errorf("%q: read %q, error %v", answer, text, err)
		}
	}
}

// A header with a line end in it would be read as two, or as a second request.
func TestTransportKeepsHeadersApart(t *testing.T) {
	e := newByteEngine(t, func(_ int, conn net.Conn, in *bufio.Reader) { _, _ = drop(in) })
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+e.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Traceparent"] = []string{"a\r\nAuthorization: b"}
	if _, err := newTransport(t).RoundTrip(req); err != errBadHeader {
		t.Errorf("error %v", err)
	}
}

func TestTransportDoesNotKeepHalfReadAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("z", 1<<20))
	}))
	t.Cleanup(server.Close)
	tr := newTransport(t)
	for range 3 {
		resp, reused, err := ask(t.Context(), tr, server.Listener.Addr().String(), "x")
		if err != nil || reused {
			t.Fatalf("error %v, over a used connection: %v", err, reused)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes after the end", n)
		}
	}
}

func TestTransportServesManyAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	tr := newTransport(t)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for k := range 50 {
				want := fmt.Sprint("request ", i, " ", k)
				resp, _, err := ask(t.Context(), tr, server.Listener.Addr().String(), want)
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != want {
					t.Errorf("answer %q instead of %q, error %v", text, want, err)
				}
			}
		})
	}
	wg.Wait()
}
