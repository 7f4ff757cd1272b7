package notify

import (
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestCheckSettings(t *testing.T) {
	key := strings.Repeat("0a", 16)
	for _, c := range []struct {
		kind     factory.ChannelKind
		settings factory.ChannelSettings
		wrong    string // the fields, in order
	}{
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "https://example.com/alerts", Secret: testSecret}, ""},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "https://example.com/alerts", Secret: "short"}, "secret"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "example.com", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "ftp://example.com", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://169.254.169.254/x", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://[::1]:80/x", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://localhost/x", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://app.LOCALHOST./x", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://0x7f000001/", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://127.1/", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://2130706433/", Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "http://10.0.0.1/x", Secret: testSecret, Private: true}, ""},
		{factory.ChannelWebhook, factory.ChannelSettings{Secret: testSecret}, "url"},
		{factory.ChannelWebhook, factory.ChannelSettings{URL: "https://a:b%zz@x", Secret: testSecret}, "url"},
		{factory.ChannelSlack, factory.ChannelSettings{URL: "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"}, ""},
		{factory.ChannelSlack, factory.ChannelSettings{URL: "slack://xoxb:1-2-3@C123"}, ""},
		{factory.ChannelSlack, factory.ChannelSettings{URL: "https://hooks.slack.com/services/T00000000"}, "url"},
		{factory.ChannelSlack, factory.ChannelSettings{URL: "https://example.com/"}, "url"},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "smtp://u:p@mail.example.com:587/?from=a@example.com&to=b@example.com,c@example.com"}, ""},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "smtp://mail.example.com/?fromAddress=a+x@example.com&toAddresses=b@example.com"}, ""},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "smtp://mail.example.com/?from=a@example.com"}, "url"},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "smtp://mail.example.com/?to=a@example.com&from=nobody"}, "url"},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "mailto:a@example.com"}, "url"},
		{factory.ChannelEmail, factory.ChannelSettings{URL: "smtp://192.168.0.1/?from=a@example.com&to=b@example.com"}, "url"},
		{factory.ChannelPagerDuty, factory.ChannelSettings{URL: key}, ""},
		{factory.ChannelPagerDuty, factory.ChannelSettings{URL: "pagerduty:///" + key}, ""},
		{factory.ChannelPagerDuty, factory.ChannelSettings{URL: "pagerduty:///1"}, "url"},
		{factory.ChannelOther, factory.ChannelSettings{URL: "discord://token@id"}, ""},
		{factory.ChannelOther, factory.ChannelSettings{URL: "generic://example.com"}, "url"},
		{factory.ChannelOther, factory.ChannelSettings{URL: "logger://"}, "url"},
		{factory.ChannelOther, factory.ChannelSettings{URL: "ntfy://127.0.0.1/topic"}, "url"},
		{"pigeon", factory.ChannelSettings{URL: "https://example.com"}, "kind"},
	} {
		errs := Check(c.kind, c.settings)
		fields := []string{}
		for field, sentence := range errs {
			fields = append(fields, field)
			if !strings.HasSuffix(sentence, ".") {
				t.Errorf("%q is no sentence", sentence)
			}
		}
		if got := strings.Join(fields, " "); got != c.wrong {
			t.Errorf("%s %s: wrong are %q, want %q: %v", c.kind, c.settings.URL, got, c.wrong, errs)
		}
	}
}

func TestMaskedSettingsHaveNoSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"":                                       "",
		"0a0a0a0a0a0a0a0a0a0a0a0a0a":             hidden,
		"https://example.com/hook/abc?token=xyz": "https://example.com/…?token=…",
		"https://user:pw@example.com:8443":       "https://…@example.com:8443",
		"https://hooks.slack.com/services/T/B/X": "https://hooks.slack.com/…",
		"slack://hook:T-B-X@webhook":             "slack://…@…",
		"discord://token@id":                     "discord://…@…",
		"pushbullet://token":                     "pushbullet://…",
		"smtp://u:p@mail.example.com:587/?to=b@example.com&from=a@example.com": "smtp://…@mail.example.com:587?from=a@example.com&to=b@example.com",
		"pagerduty:///0a0a": "pagerduty:///…",
	} {
		got := Mask(factory.ChannelSettings{URL: address, Secret: testSecret})
		if got.URL != want || got.Secret != hidden {
			t.Errorf("%s is shown as %s, want %s", address, got.URL, want)
		}
	}
	if got := Mask(factory.ChannelSettings{URL: "https://example.com"}); got.Secret != "" {
		t.Error("a secret is shown where there is none")
	}
}

// Whatever a library or a receiver quotes, no piece of a secret comes through.
func TestErrorsAreScrubbed(t *testing.T) {
	for _, s := range []factory.ChannelSettings{
		{URL: "https://user:pa55w0rd@example.com/hook/t0ken-in-path?key=qu3ryk3y", Secret: testSecret},
		{URL: "smtp://robot:p%40ssw0rd@mail.example.com/?from=a@example.com&to=b@example.com"},
		{URL: "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/CCCCCCCCCCCCCCCCCCCCCCCC"},
		{URL: "slack://hook:T0AAAAAAA-B0BBBBBBB-CCCCCCCCCCCCCCCCCCCCCCCC@webhook"},
		{URL: "pagerduty:///0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"},
		{URL: "pushbullet://o.tokentokentoken"},
	} {
		text := scrub("failed "+s.URL+" and "+s.Secret+" user pa55w0rd /hook/t0ken-in-path t0ken-in-path key=qu3ryk3y "+
			"p@ssw0rd p%40ssw0rd T0AAAAAAA/B0BBBBBBB/CCCCCCCCCCCCCCCCCCCCCCCC 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a o.tokentokentoken", s)
		for _, secret := range map[string][]string{
			"https":      {"pa55w0rd", "t0ken-in-path", "qu3ryk3y", testSecret},
			"smtp":       {"p@ssw0rd", "p%40ssw0rd"},
			"slack":      {"T0AAAAAAA", "B0BBBBBBB", "CCCCCCCC"},
			"pagerduty":  {"0a0a"},
			"pushbullet": {"o.token"},
		}[kindOf(s.URL)] {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %q comes through: %s", s.URL, secret, text)
			}
		}
	}
}

func kindOf(address string) string {
	if strings.Contains(address, "slack") {
		return "slack"
	}
	scheme, _, _ := strings.Cut(address, ":")
	return scheme
}

func TestServiceURL(t *testing.T) {
	key := strings.Repeat("0a", 16)
	for _, c := range []struct {
		kind     factory.ChannelKind
		in, want string
	}{
		{factory.ChannelSlack, "https://hooks.slack.com/services/T/B/X", "slack://hook:T-B-X@webhook"},
		{factory.ChannelPagerDuty, key, "pagerduty:///" + key},
		{factory.ChannelOther, "discord://a@b", "discord://a@b"},
	} {
		if got := ServiceURL(c.kind, c.in); got != c.want {
			t.Errorf("%s becomes %s, want %s", c.in, got, c.want)
		}
	}
}
