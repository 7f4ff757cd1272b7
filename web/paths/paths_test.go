package paths

import (
	"net/url"
	"testing"
)

func TestNamesCannotBecomeOtherPages(t *testing.T) {
	for got, want := range map[string]string{
		Deployment("a/../b"):          "/deployments/a%2F..%2Fb",
		OwnKeys("acme?x=1"):           "/t/acme%3Fx=1/keys",
		RevokeKey("t", "k#1"):         "/tenants/t/keys/k%231/revoke",
		SignInTo("/usage?from=a&b=c"): "/signin?next=%2Fusage%3Ffrom%3Da%26b%3Dc",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestPathsOfPlaceholdersAreRoutes(t *testing.T) {
	if got := OwnRemoveMember(":tenant", ":user"); got != "/t/:tenant/members/:user/remove" {
		t.Error(got)
	}
}

func TestEmptyValuesAreLeftOut(t *testing.T) {
	if got := With("/usage", url.Values{"a": {""}, "b": {"1"}}); got != "/usage?b=1" {
		t.Error(got)
	}
	if got := With("/usage", url.Values{"a": {""}}); got != "/usage" {
		t.Error(got)
	}
}
