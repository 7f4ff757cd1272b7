package notify

import (
	"cmp"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"tokenfactory/factory"
)

// secretLeast is how long a webhook's secret is at least: it signs what cannot be taken
// back.
const secretLeast = 16

// otherSchemes are the services that a channel of kind other reaches. A generic HTTP
// service is not among them: the webhook is one, with a signature and a guard.
var otherSchemes = []string{
	"bark", "discord", "googlechat", "gotify", "hangouts", "ifttt", "join", "lark", "matrix", "mattermost", "notifiarr",
	"ntfy", "opsgenie", "pagerduty", "pushbullet", "pushover", "rocketchat", "signal", "slack", "smtp", "teams", "telegram",
	"wecom", "zulip",
}

var pagerDutyKey = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)

// Check says what is wrong with a channel's settings; the fields are url and secret. It
// looks nothing up.
func Check(kind factory.ChannelKind, s factory.ChannelSettings) factory.FieldErrors {
	errs := factory.FieldErrors{}
	if strings.TrimSpace(s.URL) == "" {
		errs.Add("url", "Write where the alerts go.")
		return errs
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		errs.Add("url", "This address cannot be read. Characters such as # or @ inside a password are written as %23 or %40.")
		return errs
	}
	switch kind {
	case factory.ChannelWebhook:
		checkWebhook(errs, u, s)
	case factory.ChannelSlack:
		if _, ok := slackAddress(u); !ok {
			errs.Add("url", "Write Slack's webhook address, such as https://hooks.slack.com/services/T000/B000/XXXX, or slack://token@channel.")
		}
	case factory.ChannelEmail:
		checkEmail(errs, u)
	case factory.ChannelPagerDuty:
		if _, ok := pagerDutyAddress(s.URL, u); !ok {
			errs.Add("url", "Write PagerDuty's integration key of 32 characters, or pagerduty:///KEY.")
		}
	case factory.ChannelOther:
		if !slices.Contains(otherSchemes, u.Scheme) {
			errs.Add("url", "Begin with a service that is known here: "+strings.Join(otherSchemes, ", ")+". For your own receiver take a webhook.")
		}
	default:
		errs.Add("kind", "Choose webhook, Slack, e-mail, PagerDuty or other.")
	}
	if kind != factory.ChannelWebhook && !s.Private {
		for _, host := range hostsOf(s.URL) {
			checkHost(errs, host)
		}
	}
	return errs
}

func checkWebhook(errs factory.FieldErrors, u *url.URL, s factory.ChannelSettings) {
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		errs.Add("url", "Write a full address such as https://example.com/alerts.")
	}
	if len(s.Secret) < secretLeast {
		errs.Add("secret", "Write at least 16 characters. The receiver checks with them that an alert comes from here.")
	}
	if !s.Private {
		checkHost(errs, u.Hostname())
	}
}

func checkEmail(errs factory.FieldErrors, u *url.URL) {
	if u.Scheme != "smtp" || u.Hostname() == "" {
		errs.Add("url", "Write smtp://user:password@mail.example.com:587/?from=alerts@example.com&to=ops@example.com.")
		return
	}
	query := url.Values{}
	for key, values := range u.Query() {
		query[strings.ToLower(key)] = values
	}
	if !addresses(cmp.Or(query.Get("from"), query.Get("fromaddress"))) {
		errs.Add("url", "Add the sender to the address: ?from=alerts@example.com.")
	}
	if !addresses(cmp.Or(query.Get("to"), query.Get("toaddresses"))) {
		errs.Add("url", "Add who gets the e-mail to the address: &to=ops@example.com. Several are separated by commas.")
	}
}

// addresses reads a space as the plus sign that a query makes of it.
func addresses(list string) bool {
	found, err := mail.ParseAddressList(strings.ReplaceAll(list, " ", "+"))
	return err == nil && len(found) > 0
}

// numberedHost is an address as old resolvers read it, such as 0x7f000001 or 127.1.
var numberedHost = regexp.MustCompile(`(?i)^(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+))*$`)

// checkHost finds private addresses that are written as such. Names are looked up when
// something is delivered.
func checkHost(errs factory.FieldErrors, host string) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	a, err := netip.ParseAddr(host)
	if err == nil && isPrivate(a) || err != nil && numberedHost.MatchString(host) || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		errs.Add("url", errPrivate.Message)
	}
}

// slackAddress takes what Slack shows as well as what the delivery library reads.
func slackAddress(u *url.URL) (string, bool) {
	if u.Scheme == "https" && u.Host == "hooks.slack.com" {
		parts := strings.Split(strings.TrimPrefix(u.Path, "/services/"), "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return "", false
		}
		return "slack://hook:" + strings.Join(parts, "-") + "@webhook", true
	}
	return u.String(), u.Scheme == "slack" && u.Host != ""
}

func pagerDutyAddress(address string, u *url.URL) (string, bool) {
	if pagerDutyKey.MatchString(address) {
		return "pagerduty:///" + address, true
	}
	return address, u.Scheme == "pagerduty" && pagerDutyKey.MatchString(strings.TrimPrefix(u.Path, "/"))
}

// ServiceURL is a channel's address as the delivery library reads it.
func ServiceURL(kind factory.ChannelKind, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	switch kind {
	case factory.ChannelSlack:
		address, _ = slackAddress(u)
	case factory.ChannelPagerDuty:
		address, _ = pagerDutyAddress(address, u)
	}
	return address
}
