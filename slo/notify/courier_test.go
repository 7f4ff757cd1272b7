package notify

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"

	"tokenfactory/factory"
)

// instead answers every request of the default transport in its place.
type instead func(*http.Request) *http.Response

func (f instead) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// answerWith puts a receiver in the way of services whose hosts cannot be set.
func answerWith(t *testing.T, code int, body string) (asked *[]string, bodies *[]string) {
	t.Helper()
	asked, bodies = &[]string{}, &[]string{}
	before := http.DefaultTransport
	http.DefaultTransport = instead(func(r *http.Request) *http.Response {
		b, _ := io.ReadAll(r.Body)
		*asked, *bodies = append(*asked, r.URL.String()), append(*bodies, string(b))
		return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	})
	t.Cleanup(func() { http.DefaultTransport = before })
	return asked, bodies
}

// throughShoutrrr delivers one change to a channel and returns what is kept of it.
func throughShoutrrr(t *testing.T, kind factory.ChannelKind, address string, change factory.Change) factory.Delivery {
	t.Helper()
	m := newMemory(factory.Channel{ID: "c", Name: "c", Kind: kind, Settings: factory.ChannelSettings{URL: address}})
	id := m.tell("c", "a1", change)
	d := m.row(id)
	d.Payload = json.RawMessage(`{"title":"chät <burns> & more","severity":"page","diagnosis":{"title":"Queue","do":["Add replicas."]},"url":"https://console.example.com/d"}`)
	m.rows[id] = d
	s := newSender(m)
	s.Courier = Shoutrrr
	round(t, s)
	return m.row(id)
}

func TestSlack(t *testing.T) {
	asked, bodies := answerWith(t, 200, "ok")
	address := "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/CCCCCCCCCCCCCCCCCCCCCCCC"
	if d := throughShoutrrr(t, factory.ChannelSlack, address, factory.ChangeFiring); d.State != factory.DeliveryDone {
		t.Fatalf("%s: %s", d.State, d.Answer)
	}
	if len(*asked) != 1 || (*asked)[0] != address {
		t.Errorf("told %v", *asked)
	}
	var sent map[string]any
	if err := json.Unmarshal([]byte((*bodies)[0]), &sent); err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(sent)
	for _, part := range []string{"*Firing: chät &lt;burns&gt; &amp; more*", "Do: Add replicas.", "https://console.example.com/d"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is missing in %s", part, all)
		}
	}
}

func TestSlackFailureKeepsTheTokenSecret(t *testing.T) {
	answerWith(t, 403, "invalid_token CCCCCCCCCCCCCCCCCCCCCCCC at https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/CCCCCCCCCCCCCCCCCCCCCCCC")
	d := throughShoutrrr(t, factory.ChannelSlack, "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/CCCCCCCCCCCCCCCCCCCCCCCC", factory.ChangeFiring)
	if d.State != factory.DeliveryWaiting || !strings.Contains(d.Answer, "invalid_token") {
		t.Errorf("%s: %q", d.State, d.Answer)
	}
	for _, secret := range []string{"T0AAAAAAA", "B0BBBBBBB", "CCCCCCCC"} {
		if strings.Contains(d.Answer, secret) {
			t.Errorf("%q is kept in %q", secret, d.Answer)
		}
	}
}

func TestPagerDutyIncidentOpensAndCloses(t *testing.T) {
	_, bodies := answerWith(t, 202, "{}")
	key := strings.Repeat("0a", 16)
	for _, change := range []factory.Change{factory.ChangeFiring, factory.ChangeResolved} {
		if d := throughShoutrrr(t, factory.ChannelPagerDuty, key, change); d.State != factory.DeliveryDone {
			t.Fatalf("%s: %s", d.State, d.Answer)
		}
	}
	type event struct {
		Key    string `json:"routing_key"`
		Action string `json:"event_action"`
		Dedup  string `json:"dedup_key"`
		URL    string `json:"client_url"`
		P      struct {
			Summary, Severity, Source string
		} `json:"payload"`
		Details map[string]string
	}
	var opened, closed event
	for i, e := range []*event{&opened, &closed} {
		if err := json.Unmarshal([]byte((*bodies)[i]), e); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Key != key || opened.Action != "trigger" || opened.P.Severity != "critical" || opened.P.Source != "tokenfactory" ||
		opened.P.Summary != "Firing: chät <burns> & more" || !strings.Contains(opened.Details["text"], "Add replicas.") || opened.URL == "" {
		t.Errorf("opened: %+v", opened)
	}
	if closed.Action != "resolve" || closed.Dedup != "a1" || closed.Dedup != opened.Dedup {
		t.Errorf("closed: %+v", closed)
	}
}

// mailServer takes one e-mail, as much of SMTP as that needs, and returns what it was sent.
func mailServer(t *testing.T, rcpt string) (address string, mail chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	mail = make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var all strings.Builder
		defer func() { mail <- all.String() }()
		in := bufio.NewScanner(conn)
		fmt.Fprint(conn, "220 test\r\n")
		data := false
		for in.Scan() {
			line := in.Text()
			all.WriteString(line + "\n")
			answer := "250 fine"
			switch {
			case data && line != ".":
				continue
			case data:
				data = false
			case line == "DATA":
				data, answer = true, "354 go on"
			case strings.HasPrefix(line, "RCPT"):
				answer = rcpt
			case line == "QUIT":
				fmt.Fprint(conn, "221 bye\r\n")
				return
			}
			fmt.Fprint(conn, answer+"\r\n")
		}
	}()
	return l.Addr().String(), mail
}

func TestEmail(t *testing.T) {
	address, mail := mailServer(t, "250 fine")
	d := throughShoutrrr(t, factory.ChannelEmail, "smtp://"+address+"/?from=alerts@example.com&to=ops@example.com", factory.ChangeFiring)
	if d.State != factory.DeliveryDone {
		t.Fatalf("%s: %s", d.State, d.Answer)
	}
	got := <-mail
	for _, part := range []string{"MAIL FROM:<alerts@example.com>", "RCPT TO:<ops@example.com>", "Subject: =?utf-8?q?Firing:_ch=C3=A4t", "\nSeverity: page\n", "\nDo: Add replicas.\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in:\n%s", part, got)
		}
	}
}

func TestEmailThatIsRefusedIsTriedAgain(t *testing.T) {
	address, mail := mailServer(t, "550 no such person")
	d := throughShoutrrr(t, factory.ChannelEmail, "smtp://"+address+"/?from=alerts@example.com&to=ops@example.com", factory.ChangeFiring)
	<-mail
	if d.State != factory.DeliveryWaiting || !strings.Contains(d.Answer, "no such person") {
		t.Errorf("%s: %q", d.State, d.Answer)
	}
}

func TestAddressOfNoServiceIsAFailure(t *testing.T) {
	for _, address := range []string{"nothing://x", "discord://", "slack://short", "telegram://", "matrix://"} {
		if d := throughShoutrrr(t, factory.ChannelOther, address, factory.ChangeTest); d.State != factory.DeliveryWaiting || d.Answer == "" {
			t.Errorf("%s: %s, %q", address, d.State, d.Answer)
		}
	}
}

// What is offered is what the library knows, but for its generic service and its logger.
func TestOfferedServicesAreKnown(t *testing.T) {
	known := map[string]bool{}
	for _, s := range (&router.ServiceRouter{}).ListServices() {
		known[s] = true
	}
	for _, s := range otherSchemes {
		if !known[s] {
			t.Errorf("%s is offered and not known to the library", s)
		}
	}
	if len(known) != len(otherSchemes)+2 {
		t.Errorf("the library knows %d services, and %d are offered", len(known), len(otherSchemes))
	}
}
