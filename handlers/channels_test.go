package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/slo/notify"
	"tokenfactory/web"
)

// logBook is a log that can be read while it is written.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// sending is an alert site whose deliveries are really sent; it returns its log too.
func sending(t *testing.T) (*site, *visitor, *logBook) {
	t.Helper()
	book := &logBook{}
	log := slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	sender := &notify.Sender{Courier: notify.Shoutrrr, Log: log}
	s, olga := newAlertSite(t, func(w *web.Site) { w.Log, w.Deliver, sender.Now = log, sender.Poke, w.Now })
	sender.Store = s.store
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sender.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		s.must(<-done)
	})
	return s, olga, book
}

// letter is what a receiver was sent.
type letter struct {
	header http.Header
	body   []byte
}

// receiver takes what is posted to it.
func receiver(t *testing.T) (address string, letters chan letter) {
	t.Helper()
	letters = make(chan letter, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		letters <- letter{r.Header, body}
		_, _ = io.WriteString(w, "thank you")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook-t0ken", letters
}

// until reads a page again and again, until it says something.
func (v *visitor) until(path, want string) string {
	v.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		page := v.page(path)
		if strings.Contains(page, want) {
			return page
		}
		if time.Now().After(deadline) {
			v.t.Fatalf("%s does not say %q: %s", path, want, page)
		}
	}
}

// addWebhook makes a webhook by the form and returns its page's address.
func (v *visitor) addWebhook(name, address, secret string) string {
	v.t.Helper()
	status, location, body := v.post("/alerts/channels", url.Values{
		"kind": {"webhook"}, "name": {name}, "url": {address}, "secret": {secret}, "private": {"on"}, "severities": {"page"}, "enabled": {"on"},
	})
	if status != http.StatusSeeOther {
		v.t.Fatalf("%d %s", status, answer{v.t, status, "", body}.text())
	}
	return location
}

func TestTestOfAChannelReachesItsReceiver(t *testing.T) {
	s, olga, _ := sending(t)
	address, letters := receiver(t)
	page := olga.addWebhook("on call", address, "")
	shown := olga.page(page)
	_, secret, ok := strings.Cut(shown, "The signing secret of on call")
	if ok {
		secret, _, _ = strings.Cut(strings.TrimSpace(secret), " ")
	}
	if !ok || !strings.HasPrefix(secret, "tfw-") || len(secret) < 40 {
		t.Fatalf("no secret is shown: %s", shown)
	}
	if again := olga.page(page); strings.Contains(again, secret) || !strings.Contains(again, "Kept, and not shown again") {
		t.Errorf("the secret is shown a second time: %s", again)
	}

	status, location, body := olga.post(page+"/test", nil)
	if status != http.StatusSeeOther || !strings.HasPrefix(location, page+"?test=") {
		t.Fatalf("%d %s %s", status, location, body)
	}
	got := <-letters
	stamp := got.header.Get(notify.HeaderTimestamp)
	if want := notify.Sign(secret, stamp, got.body); got.header.Get(notify.HeaderSignature) != want {
		t.Errorf("signed %q, want %q", got.header.Get(notify.HeaderSignature), want)
	}
	var p slo.Payload
	s.must(json.Unmarshal(got.body, &p))
	if p.Version != slo.PayloadVersion || p.Change != factory.ChangeTest || p.URL != "http://factory.example:8080"+page || !strings.Contains(p.Title, "Nothing is wrong") {
		t.Errorf("the test says %+v", p)
	}
	if done := olga.until(location, "The test was delivered"); !strings.Contains(done, "200 thank you") {
		t.Errorf("the receiver's answer is not told: %s", done)
	}
	if _, body := olga.get(location); (answer{t, 200, "", body}).page().Find("#test-result[hx-get]").Length() != 0 {
		t.Error("a test that has settled is asked for again and again")
	}
	checkByHand(t, olga, page, secret, got)
}

// checkByHand works the signature out with the command that the page gives.
func checkByHand(t *testing.T, v *visitor, page, secret string, got letter) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Log("not worked out by hand: there is no openssl here")
		return
	}
	_, body := v.get(page)
	command := ""
	for _, n := range (answer{t, 200, "", body}).page().Find(".command code").EachIter() {
		if strings.Contains(n.Text(), "openssl") {
			command = n.Text()
		}
	}
	dir := t.TempDir()
	v.must(os.WriteFile(filepath.Join(dir, "body.json"), got.body, 0o600))
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Dir, run.Env = dir, append(run.Environ(), "SECRET="+secret, "TIMESTAMP="+got.header.Get(notify.HeaderTimestamp))
	out, err := run.Output()
	if err != nil || "v1="+strings.TrimSpace(string(out)) != got.header.Get(notify.HeaderSignature) {
		t.Errorf("%s prints %q (%v), the header says %q", command, out, err, got.header.Get(notify.HeaderSignature))
	}
}

func TestATestThatDoesNotArriveSaysWhy(t *testing.T) {
	s, olga, _ := sending(t)
	c := s.channel("c")
	c.Settings.URL, c.Enabled = "http://127.0.0.1:9/hook", false // kept before such addresses were refused
	s.must(s.store.SaveChannel(t.Context(), c))
	_, location, _ := olga.post("/alerts/channels/c/test", nil)
	if got := olga.until(location, "The test was not delivered yet"); !strings.Contains(got, "This address is inside a private network.") || !strings.Contains(got, "1 attempt") {
		t.Errorf("%s", got)
	}
}

func TestSecretsOfChannelsAreNowhere(t *testing.T) {
	s, olga, book := sending(t)
	address, letters := receiver(t)
	hook := olga.addWebhook("hook", address, "my-own-signing-secret")
	for kind, settings := range map[factory.ChannelKind]string{
		factory.ChannelSlack:     "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/slackt0kenslackt0ken",
		factory.ChannelEmail:     "smtp://robot:mailpassw0rd@mail.example.com:587/?from=a@example.com&to=b@example.com",
		factory.ChannelPagerDuty: "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
		factory.ChannelOther:     "discord://disc0rdt0ken@123456789",
	} {
		status, _, body := olga.post("/alerts/channels", url.Values{"kind": {string(kind)}, "name": {string(kind)}, "url": {settings}, "severities": {"page"}})
		if status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", kind, status, answer{t, status, "", body}.text())
		}
	}
	s.alert("x", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour, factory.ChangeFiring)
	olga.post(hook+"/test", nil)
	<-letters
	olga.until(hook, "200 thank you")
	list, err := s.store.Channels(t.Context())
	s.must(err)
	texts := map[string]string{}
	for _, c := range list {
		for _, path := range []string{"/alerts/channels/" + c.ID, "/alerts/channels/" + c.ID + "/edit"} {
			_, texts[path] = olga.get(path)
		}
	}
	for _, path := range []string{"/alerts/channels", "/alerts/x", "/alerts"} {
		_, texts[path] = olga.get(path)
	}
	_, texts["api channels"] = s.programSends("", http.MethodGet, "/api/v1/channels", "")
	_, texts["api alert"] = s.programSends("", http.MethodGet, "/api/v1/alerts/x", "")
	texts["log"] = book.String()
	for where, text := range texts {
		for _, secret := range []string{"my-own-signing-secret", "hook-t0ken", "slackt0ken", "mailpassw0rd", "0a0a0a0a", "disc0rdt0ken"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q in it", where, secret)
			}
		}
	}
	for _, want := range []string{"https://hooks.slack.com/…", "smtp://…@mail.example.com:587?from=a@example.com&amp;to=b@example.com"} {
		if !strings.Contains(texts["/alerts/channels"], want) {
			t.Errorf("the list does not show %s", want)
		}
	}
	if !strings.Contains(texts["api channels"], `"signed":true`) || !strings.Contains(texts["api channels"], `"answer":"200 thank you"`) {
		t.Errorf("api: %s", texts["api channels"])
	}
}

func TestEmptySecretsKeepWhatIsKept(t *testing.T) {
	s, olga := newAlertSite(t)
	was := s.channel("c")
	form := url.Values{"kind": {"slack"}, "name": {"renamed"}, "url": {""}, "secret": {""}, "severities": {"ticket"}}
	if status, _, body := olga.post("/alerts/channels/c", form); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, answer{t, status, "", body}.text())
	}
	got, err := s.store.Channel(t.Context(), "c")
	s.must(err)
	if got.Settings != was.Settings || got.Kind != was.Kind || got.Name != "renamed" || got.Enabled || fmt.Sprint(got.Severities) != "[ticket]" {
		t.Errorf("saved %+v", got)
	}
	form.Set("renew", "on")
	olga.post("/alerts/channels/c", form)
	renewed, err := s.store.Channel(t.Context(), "c")
	s.must(err)
	if renewed.Settings.Secret == was.Settings.Secret || renewed.Settings.URL != was.Settings.URL {
		t.Errorf("no new secret: %+v", renewed)
	}
	if got := olga.page("/alerts/channels/c"); !strings.Contains(got, renewed.Settings.Secret) {
		t.Errorf("the new secret is not shown: %s", got)
	}
}

func TestChannelsThatCannotBeAreRefused(t *testing.T) {
	s, olga := newAlertSite(t)
	s.channel("c")
	good := func() url.Values {
		return url.Values{"kind": {"webhook"}, "name": {"new"}, "url": {"https://example.com/x"}, "secret": {"sixteen-characters"}, "severities": {"page"}}
	}
	for _, x := range []struct{ field, value, at, says string }{
		{"name", " ", "name", "Write a name"},
		{"name", "on call c", "name", "exists"},
		{"url", "", "url", "Write where the alerts go"},
		{"url", "example.com", "url", "full address"},
		{"url", "http://10.0.0.1/", "url", "inside a private network"},
		{"url", "http://localhost:9/", "url", "inside a private network"},
		{"secret", "short", "secret", "16 characters"},
		{"severities", "odd", "severities", "at least one"},
		{"kind", "odd", "kind", ""},
	} {
		form := good()
		form.Set(x.field, x.value)
		status, _, body := olga.post("/alerts/channels", form)
		a := answer{t, status, "", body}.is(http.StatusUnprocessableEntity)
		if got := a.problem(x.at); !strings.Contains(got, x.says) {
			t.Errorf("%s=%q: %q is said, want %q", x.field, x.value, got, x.says)
		}
		if strings.Contains(body, "sixteen-characters") {
			t.Errorf("%s=%q: the secret is sent back", x.field, x.value)
		}
	}
	form := good()
	form.Set("url", "http://10.0.0.1/")
	form.Set("private", "on")
	if status, _, _ := olga.post("/alerts/channels", form); status != http.StatusSeeOther {
		t.Errorf("an allowed private address: %d", status)
	}
}

func TestCS05WebhooksIntoPrivateNetworksAreNotAllowed(t *testing.T) {
	s, _ := newAlertSite(t)
	names := 0
	for address, want := range map[string]int{
		"http://169.254.169.254/latest/": 400, "http://127.0.0.1:9/": 400, "http://[::1]/": 400, "http://10.0.0.1/": 400, "http://0x7f000001/": 400, "file:///etc/passwd": 400,
		"example.com": 422, "https://example.com/alerts": 201,
	} {
		status, body := s.programSends("", http.MethodPost, "/api/v1/channels", fmt.Sprintf(`{"name":"n%d","kind":"webhook","url":%q}`, names, address))
		names++
		if status != want || strings.Contains(body, `"code":"url_not_allowed"`) != (want == 400) {
			t.Errorf("%s: %d %s", address, status, body)
		}
		if want == 201 && (!strings.Contains(body, `"secret":"tfw-`) || strings.Contains(body, "example.com/alerts")) {
			t.Errorf("a channel that was made: %s", body)
		}
	}
	list, err := s.store.Channels(t.Context())
	s.must(err)
	if len(list) != 1 {
		t.Errorf("%d channels were kept, want 1", len(list))
	}
}

func TestChannelsAreSwitchedAndDeleted(t *testing.T) {
	s, olga := newAlertSite(t)
	if got := olga.page("/alerts/channels"); !strings.Contains(got, "Nobody is told") {
		t.Error(got)
	}
	s.channel("c")
	for i := range 30 {
		s.alert(fmt.Sprintf("a%02d", i), "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour, factory.ChangeFiring)
		s.now = s.now.Add(time.Second)
	}
	_, body := olga.get("/alerts/channels/c")
	page := answer{t, 200, "", body}.page()
	next, _ := page.Find(".pager a[rel=next]").Attr("href")
	if n := page.Find("#deliveries-live tbody tr").Length(); n != 25 || !strings.Contains(page.Find("#deliveries-live tbody tr").First().Text(), "Alert a29") {
		t.Errorf("%d deliveries on the first page: %s", n, page.Find("#deliveries-live tbody tr").First().Text())
	}
	if got := olga.page(next); !strings.Contains(got, "Alert a04") || strings.Contains(got, "Alert a05") {
		t.Errorf("the second page: %s", got)
	}
	olga.post("/alerts/channels/c/switch", url.Values{"enabled": {""}})
	if got := olga.page("/alerts/channels/c"); !strings.Contains(got, "Switch on") || !strings.Contains(got, "The channel was switched off.") {
		t.Errorf("%s", got)
	}
	if got := olga.page("/alerts"); !strings.Contains(got, "No channel is switched on") {
		t.Errorf("%s", got)
	}
	olga.post("/alerts/channels/c/switch", url.Values{"enabled": {"on"}})
	if got := olga.page("/alerts"); strings.Contains(got, "No channel is switched on") {
		t.Errorf("%s", got)
	}
	olga.post("/alerts/channels/c/remove", nil)
	if status, _ := olga.get("/alerts/channels/c"); status != http.StatusNotFound {
		t.Errorf("a deleted channel: %d", status)
	}
}

func TestChannelsThatCannotBeReadSayIt(t *testing.T) {
	s, olga := newAlertSite(t)
	s.channel("c")
	other, err := factory.OpenSeal(filepath.Join(t.TempDir(), "other.key"))
	s.must(err)
	s.store.UseSeal(other)
	if got := olga.page("/alerts/channels/c"); !strings.Contains(got, "cannot be read") || !strings.Contains(got, "Unreadable") {
		t.Errorf("%s", got)
	}
	for _, do := range []string{"/test", "/switch"} {
		if status, _, _ := olga.post("/alerts/channels/c"+do, nil); status != http.StatusConflict {
			t.Errorf("%s: %d", do, status)
		}
	}
	form := url.Values{"name": {"c"}, "severities": {"page"}, "enabled": {"on"}}
	status, _, body := olga.post("/alerts/channels/c", form)
	if got := (answer{t, status, "", body}).is(http.StatusUnprocessableEntity).problem("url"); got == "" {
		t.Error("settings that cannot be read were kept")
	}
	form.Set("url", "https://example.com/anew")
	if status, _, _ := olga.post("/alerts/channels/c", form); status != http.StatusSeeOther {
		t.Errorf("written anew: %d", status)
	}
	if got := olga.page("/alerts/channels/c"); strings.Contains(got, "cannot be read") || !strings.Contains(got, "The signing secret of c") {
		t.Errorf("%s", got)
	}
}
