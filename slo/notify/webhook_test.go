package notify

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

func TestWebhookIsSigned(t *testing.T) {
	r := newReceiver(t, 204)
	m := newMemory(hook("r", r.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	round(t, newSender(m))
	got := r.take()
	if len(got) != 1 {
		t.Fatalf("%d messages arrived", len(got))
	}
	h := got[0].header
	if h.Get(HeaderDelivery) != id || h.Get("Content-Type") != "application/json" || h.Get(HeaderTimestamp) != "1777636800" {
		t.Errorf("headers: %v", h)
	}
	if want := Sign(testSecret, h.Get(HeaderTimestamp), got[0].body); h.Get(HeaderSignature) != want {
		t.Errorf("signature %s, want %s", h.Get(HeaderSignature), want)
	}
	if string(got[0].body) != string(m.row(id).Payload) {
		t.Errorf("body %s is not the payload as it was kept", got[0].body)
	}
	// Worked out by other means, so that the definition cannot drift.
	if got := Sign("key", "1", []byte("{}")); got != "v1=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224" {
		t.Errorf("the signature is made in another way: %s", got)
	}
	if d := m.row(id); d.State != factory.DeliveryDone || d.DoneAt == nil || d.Attempts != 1 || d.Answer != "204" {
		t.Errorf("kept: %+v", d)
	}
}

func TestWebhookAnswers(t *testing.T) {
	for _, c := range []struct {
		answer int
		state  factory.DeliveryState
	}{
		{200, factory.DeliveryDone}, {202, factory.DeliveryDone},
		{400, factory.DeliveryWaiting}, {401, factory.DeliveryWaiting}, {404, factory.DeliveryWaiting},
		{429, factory.DeliveryWaiting}, {500, factory.DeliveryWaiting}, {503, factory.DeliveryWaiting},
		{410, factory.DeliveryFailed},
	} {
		r := newReceiver(t, c.answer)
		m := newMemory(hook("r", r.URL))
		id := m.tell("r", "a", factory.ChangeFiring)
		round(t, newSender(m))
		if d := m.row(id); d.State != c.state || d.Attempts != 1 {
			t.Errorf("after %d the delivery is %s after %d attempts, want %s", c.answer, d.State, d.Attempts, c.state)
		}
	}
}

func TestTriedAgainThenDone(t *testing.T) {
	r := newReceiver(t, 500)
	m := newMemory(hook("r", r.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	s := newSender(m)
	round(t, s)
	first := m.row(id)
	if wait := first.NextAt.Sub(m.time()); wait < 8*time.Second || wait > 10*time.Second {
		t.Errorf("tried again after %s, want about 10 s", wait)
	}
	if first.Answer != "500 noted" {
		t.Errorf("the answer is kept as %q", first.Answer)
	}
	round(t, s)
	if n := len(r.take()); n != 1 {
		t.Errorf("tried %d times before its time", n)
	}
	r.answers(200)
	m.pass(10 * time.Second)
	round(t, s)
	if d := m.row(id); d.State != factory.DeliveryDone || d.Attempts != 2 {
		t.Errorf("kept: %+v", d)
	}
}

func TestGivesUpAfterADay(t *testing.T) {
	r := newReceiver(t, 503)
	m := newMemory(hook("r", r.URL))
	id, second := m.tell("r", "a", factory.ChangeFiring), m.tell("r", "b", factory.ChangeFiring)
	for range 200 {
		round(t, newSender(m)) // every attempt may be of another process
		m.pass(30 * time.Minute)
	}
	d := m.row(id)
	if d.State != factory.DeliveryFailed || m.row(second).State != factory.DeliveryFailed {
		t.Fatalf("after four days: %s and %s", d.State, m.row(second).State)
	}
	// 10 s to 1 h takes nine attempts, and the rest of the day about one an hour.
	if n := len(r.take()); n < 20 || n > 45 {
		t.Errorf("the receiver was tried %d times in a day", n)
	}
}

func TestBackoffGrowsToAnHour(t *testing.T) {
	for attempts, most := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 10: time.Hour, 1000: time.Hour} {
		for range 100 {
			if w := backoff(attempts); w > most || w < most*4/5 {
				t.Fatalf("after %d attempts it waits %s, want up to a fifth less than %s", attempts, w, most)
			}
		}
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(429)
	}))
	defer srv.Close()
	m := newMemory(hook("r", srv.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	round(t, newSender(m))
	if wait := m.row(id).NextAt.Sub(m.time()); wait != 10*time.Minute {
		t.Errorf("waits %s, want what the receiver asked for", wait)
	}
}

func TestRedirectsStayAtTheHost(t *testing.T) {
	other := newReceiver(t, 200)
	var to string
	var code int
	arrived := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/new" {
			arrived++
			return
		}
		http.Redirect(w, req, to, code)
	}))
	defer srv.Close()
	for _, c := range []struct {
		to    string
		code  int
		state factory.DeliveryState
	}{
		{other.URL, 307, factory.DeliveryWaiting},
		{"/new", 302, factory.DeliveryWaiting}, // would lose the body
		{"/new", 307, factory.DeliveryDone},
	} {
		to, code = c.to, c.code
		m := newMemory(hook("r", srv.URL))
		id := m.tell("r", "a", factory.ChangeFiring)
		round(t, newSender(m))
		if d := m.row(id); d.State != c.state {
			t.Errorf("%d to %s: %s, %s", c.code, c.to, d.State, d.Answer)
		}
	}
	if len(other.take()) != 0 || arrived != 1 {
		t.Errorf("another host was told, or the new place was told %d times", arrived)
	}
}

func TestSlowReceiverHoldsUpNobody(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer slow.Close()
	quick := newReceiver(t, 200)
	m := newMemory(hook("slow", slow.URL), hook("quick", quick.URL))
	m.saved = make(chan string, 4)
	s := newSender(m)
	waiting := m.tell("slow", "a", factory.ChangeFiring)
	if err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-asked
	done := m.tell("quick", "a", factory.ChangeFiring)
	if err := s.look(t.Context()); err != nil { // must not ask the slow one again
		t.Fatal(err)
	}
	if first := <-m.saved; first != done { // waits for ever when the slow one holds it up
		t.Fatalf("%s was saved first", first)
	}
	if m.row(waiting).State != factory.DeliveryWaiting {
		t.Error("the slow receiver is done before it answered")
	}
	close(release)
	s.working.Wait()
	if m.row(waiting).State != factory.DeliveryDone {
		t.Error("the slow receiver's delivery was lost")
	}
	if len(asked) != 0 {
		t.Error("the slow receiver was told again while it was still at it")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(500)
		_, _ = w.Write([]byte("bad\x00 " + testSecret + " " + strings.Repeat("x", 1<<20)))
	}))
	defer srv.Close()
	m := newMemory(hook("r", srv.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	round(t, newSender(m))
	answer := m.row(id).Answer
	if n := len([]rune(answer)); n != answerMost || strings.Contains(answer, testSecret) || strings.Contains(answer, "\x00") {
		t.Errorf("%d characters are kept: %.80q", n, answer)
	}
}
