package e2e

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/playwright-community/playwright-go"
)

var idInPath = regexp.MustCompile(`[a-z2-7]{26}`)

// shapeOf maps pages that differ by id only onto one name.
func shapeOf(path string) string { return idInPath.ReplaceAllString(path, "id") }

// crawl follows every link from a page on and returns one address for each shape.
func (v *visitor) crawl(from string) []string {
	v.t.Helper()
	found := map[string]string{shapeOf(from): from}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		v.open(at)
		links, err := v.page.Locator("a[href]").EvaluateAll(`as => as.filter(a => !a.hasAttribute("download")).map(a => a.href)`)
		v.must(err)
		for _, l := range links.([]any) {
			u, err := url.Parse(l.(string))
			if err != nil || u.Scheme+"://"+u.Host != v.base || strings.HasSuffix(u.Path, ".csv") || strings.HasPrefix(u.Path, "/static/") || strings.HasPrefix(u.Path, "/v1") || strings.HasPrefix(u.Path, "/api/") {
				continue
			}
			path := u.Path
			if u.Query().Get("view") == "table" {
				path += "?view=table"
			}
			if _, seen := found[shapeOf(path)]; !seen {
				found[shapeOf(path)] = path
				queue = append(queue, path)
			}
		}
	}
	var pages []string
	for _, path := range found {
		pages = append(pages, path)
	}
	sort.Strings(pages)
	return pages
}

// Every page that links lead to is fit to be seen: in light and dark and on a
// narrow screen, axe finds nothing, nothing overflows, and the browser has no
// complaint, which includes the content security policy's.
func TestEveryPageIsAccessibleInEveryLook(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	people := []struct {
		name, home string
		who        login
		least      []string
	}{
		{"operator", "/clusters", d.Operator, []string{"/clusters", "/clusters/id", "/clusters/new", "/deployments", "/deployments/id", "/deployments/id/metrics",
			"/deployments/id/replicas", "/deployments/id/settings", "/deployments/new", "/endpoints", "/models", "/providers", "/tenants", "/tenants/id", "/tenants/id/keys/id", "/aliases", "/aliases/id", "/aliases/id/edit", "/aliases/new", "/usage", "/account",
			"/objectives", "/alerts", "/alerts/silences", "/alerts/silences/new", "/alerts/channels", "/alerts/channels/new", "/alerts/channels/id", "/alerts/channels/id/edit"}},
		{"member", "/t/acme/models", d.Tenant, []string{"/t/acme/models", "/t/acme/keys", "/t/acme/keys/id", "/t/acme/usage", "/t/acme/members", "/account"}},
	}
	looks := []struct {
		name string
		look look
	}{{"light", look{}}, {"dark", look{dark: true}}, {"narrow", look{width: 400}}}
	for _, p := range people {
		var pages []string
		for _, l := range looks {
			t.Run(p.name+" "+l.name, func(t *testing.T) {
				v := newVisitor(t, d.Console, l.look)
				if l.name == "light" && p.name == "operator" {
					v.open("/signin")
					v.accessible()
					v.keep("signin-" + l.name)
				}
				v.signIn(p.who)
				if pages == nil {
					if p.name == "operator" {
						v.addChannelAndSilence()
					}
					pages = v.crawl(p.home)
					var shapes []string
					for _, path := range pages {
						shapes = append(shapes, shapeOf(path))
					}
					for _, want := range p.least {
						if !slices.Contains(shapes, want) {
							t.Errorf("no link leads to %s; found %v", want, shapes)
						}
					}
				}
				for _, path := range pages {
					v.open(path)
					if strings.Contains(path, "/metrics") && !strings.Contains(path, "view=table") {
						v.must(v.page.Locator("[data-chart] canvas").First().WaitFor())
					}
					v.accessible()
					wide, err := v.page.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`)
					v.must(err)
					if fmt.Sprint(wide) != "0" {
						t.Errorf("%s is %v pixels wider than the window", path, wide)
					}
					v.keep(strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(p.name+"-"+shapeOf(path), "-"), "-") + "-" + l.name)
				}
				v.clean()
			})
		}
	}
}

// addChannelAndSilence fills the pages of alerts, which are empty in a new factory. The
// channel is off: nobody listens at its address.
func (v *visitor) addChannelAndSilence() {
	v.t.Helper()
	v.open("/alerts/channels/new")
	v.put("name", "On call")
	v.put("url", "https://alerts.factory.example/in")
	v.must(v.page.Locator("#field-enabled, input[name=enabled]").First().Uncheck())
	v.submit("channel-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/alerts/channels/[a-z0-9]{26}$`)))
	v.open("/alerts/silences/new")
	v.put("reason", "New cooling in rack 4")
	v.submit("silence-form")
	v.must(v.page.WaitForURL(regexp.MustCompile(`/alerts/silences$`)))
}

func (v *visitor) signIn(who login) {
	v.t.Helper()
	v.open("/signin")
	v.must(v.page.Locator("#field-email").Fill(who.Email))
	v.must(v.page.Locator("#field-password").Fill(who.Password))
	v.must(v.page.Locator("main form button[type=submit], form[action^='/signin'] button").First().Click())
	v.must(v.page.WaitForURL(regexp.MustCompile(`^[^?]*/(?:clusters|deployments|t/|$)`), playwright.PageWaitForURLOptions{WaitUntil: playwright.WaitUntilStateLoad}))
}
