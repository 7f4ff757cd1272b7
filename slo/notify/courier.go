package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"tokenfactory/factory"
)

// Shoutrrr is the courier for everything but webhooks.
func Shoutrrr(_ context.Context, c factory.Channel, m Message) (err error) {
	// What operators write goes into code of others, and a slip in it must not end the
	// whole server.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the delivery library broke: %v", r)
		}
	}()
	address := ServiceURL(c.Kind, c.Settings.URL)
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("The channel's address cannot be read.")
	}
	service, err := (&router.ServiceRouter{}).Locate(address)
	if err != nil {
		return err
	}
	text, params := forService(u, m)
	return service.Send(text, &params)
}

// forService writes a message as a service takes it. A service refuses parameters that it
// does not know.
func forService(u *url.URL, m Message) (string, types.Params) {
	switch u.Scheme {
	case "smtp":
		return m.Body + "\n", types.Params{"subject": mime.QEncoding.Encode("utf-8", m.Title)}
	case "pagerduty":
		return m.Title, incident(u, m)
	case "slack":
		// The characters by which Slack knows links and calls to everybody.
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
		return escape.Replace("*" + m.Title + "*\n" + m.Body), types.Params{}
	}
	return m.Title + "\n\n" + m.Body, types.Params{}
}

// incident opens, or closes, the one incident of an alert.
func incident(u *url.URL, m Message) types.Params {
	details, _ := json.Marshal(map[string]string{"text": m.Body})
	p := types.Params{"action": "trigger", "severity": "warning", "dedup_key": m.AlertID, "details": string(details), "client": "Token Factory"}
	switch {
	case m.Change == factory.ChangeResolved:
		p["action"] = "resolve"
	case m.Change == factory.ChangeTest:
		p["severity"] = "info"
	case m.Severity == factory.Page:
		p["severity"] = "critical"
	}
	if m.URL != "" {
		p["client_url"] = m.URL
	}
	if !u.Query().Has("source") {
		p["source"] = "tokenfactory"
	}
	return p
}
