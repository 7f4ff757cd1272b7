package notify

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"tokenfactory/factory"
)

// errPrivate is shown to operators, who can do something about it.
var errPrivate = factory.Errorf(factory.Forbidden, "This address is inside a private network. Allow private addresses for this channel if that is meant.")

// newClient is for webhooks. No proxy is used: a proxy would resolve names where the
// check cannot see it.
func newClient(private bool) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if !private {
		// The check is of the address that is dialled, after its name was resolved: a
		// name that changes its mind between check and use gains nothing.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || isPrivate(at.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        30 * time.Second,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: stayThere,
	}
}

// stayThere follows a receiver within its own host only, and only where the message goes
// along: after 301 to 303 a request is sent again without its body.
func stayThere(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || req.Method != http.MethodPost || len(via) > 3 {
		return http.ErrUseLastResponse
	}
	return nil
}

// notPublic are ranges that netip has no word for.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carriers' own, and some clouds' metadata
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("fec0::/10"),
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// isPrivate reports whether an address is anywhere but in the public internet.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	// Two ways to write an IPv4 address inside an IPv6 one that routers understand.
	if b := a.As16(); nat64.Contains(a) {
		a = netip.AddrFrom4([4]byte(b[12:16]))
	} else if sixTo4.Contains(a) {
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return true
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// ownHost are services that people run themselves, so that the address names a host. In
// other services' addresses the host is fixed, and its place is taken by a token.
var ownHost = map[string]bool{
	"smtp": true, "pagerduty": true, "opsgenie": true, "gotify": true, "ntfy": true, "mattermost": true, "matrix": true,
	"rocketchat": true, "signal": true, "bark": true, "zulip": true, "lark": true, "teams": true,
}

// refusePrivateHost looks a service's host up before its message is handed over. The
// courier dials by itself and looks it up again, so this keeps mistakes out, not names
// that change their mind.
func refusePrivateHost(ctx context.Context, address string) error {
	for _, host := range hostsOf(address) {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return factory.Errorf(factory.Unavailable, "The receiver's host name cannot be found.")
		}
		for _, a := range found {
			if isPrivate(a) {
				return errPrivate
			}
		}
	}
	return nil
}

// hostsOf are the hosts that an address lets a courier dial.
func hostsOf(address string) []string {
	u, err := url.Parse(address)
	if err != nil || !ownHost[u.Scheme] {
		return nil
	}
	hosts := []string{}
	if h := u.Hostname(); h != "" && u.Scheme != "teams" {
		hosts = append(hosts, h)
	}
	for key, values := range u.Query() {
		if strings.EqualFold(key, "host") {
			hosts = append(hosts, values...)
		}
	}
	if u.Scheme == "signal" && len(hosts) == 0 {
		hosts = append(hosts, "localhost") // where it is sought when nothing is written
	}
	return hosts
}
