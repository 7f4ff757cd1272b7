package notify

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"tokenfactory/factory"
)

const hidden = "…"

// harmless are fields of an address that are not secret and help to tell channels apart.
var harmless = map[string]bool{
	"from": true, "fromaddress": true, "fromname": true, "to": true, "toaddresses": true, "auth": true,
	"encryption": true, "usestarttls": true, "starttls": true, "severity": true, "source": true,
}

// Mask is what may be shown of a channel's settings: where it leads, and not the secrets
// in it.
func Mask(s factory.ChannelSettings) factory.ChannelSettings {
	if s.Secret != "" {
		s.Secret = hidden
	}
	s.URL = maskURL(s.URL)
	return s
}

func maskURL(address string) string {
	u, err := url.Parse(address)
	if address == "" || err != nil || u.Scheme == "" {
		if address == "" {
			return ""
		}
		return hidden // such as a bare key
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += hidden + "@"
	}
	// Where the host is no host, it is a token, or a part of one.
	if u.Scheme == "http" || u.Scheme == "https" || ownHost[u.Scheme] && u.Scheme != "teams" {
		shown += u.Host
	} else if u.Host != "" {
		shown += hidden
	}
	if strings.Trim(u.Path, "/") != "" {
		shown += "/" + hidden
	}
	fields := []string{}
	for key, values := range u.Query() {
		if value := strings.Join(values, ","); harmless[strings.ToLower(key)] {
			fields = append(fields, key+"="+value)
		} else {
			fields = append(fields, key+"="+hidden)
		}
	}
	if slices.Sort(fields); len(fields) > 0 {
		shown += "?" + strings.Join(fields, "&")
	}
	return shown
}

// scrub takes everything that could be a secret of a channel out of a text: libraries and
// receivers like to quote what they were given, whole or in pieces.
func scrub(text string, s factory.ChannelSettings) string {
	secrets := []string{s.Secret, s.URL}
	if u, err := url.Parse(s.URL); err == nil {
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
		pieces := append(strings.Split(u.Path, "/"), u.Path, u.RawQuery)
		if name := u.User.Username(); name != "" {
			pieces = append(pieces, name)
		}
		if u.Scheme != "http" && u.Scheme != "https" && !ownHost[u.Scheme] {
			pieces = append(pieces, u.Host, u.Hostname())
		}
		for key, values := range u.Query() {
			if !harmless[strings.ToLower(key)] {
				pieces = append(pieces, values...)
			}
		}
		password, _ := u.User.Password()
		pieces = append(pieces, strings.FieldsFunc(password+"-"+u.Path, func(r rune) bool { return r == '-' || r == '/' || r == ':' })...)
		for _, p := range pieces {
			if len(p) >= 6 { // shorter ones are words such as "api"
				secrets = append(secrets, p)
			}
		}
	}
	pairs := []string{}
	longestFirst(secrets)
	for _, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if form != "" {
				pairs = append(pairs, form, hidden)
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// longestFirst lets a whole address go before its pieces.
func longestFirst(texts []string) {
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
}

// shorten keeps an answer fit for a line of the log.
func shorten(text string) string {
	text = oneLine(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " ")))
	if runes := []rune(text); len(runes) > answerMost {
		return string(runes[:answerMost-1]) + hidden
	}
	return text
}
