package notify

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestPrivateAddressesAreRefused(t *testing.T) {
	r := newReceiver(t, 200)
	m := newMemory(hook("r", r.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	s := newSender(m)
	s.AllowPrivate = false
	round(t, s)
	if len(r.take()) != 0 {
		t.Fatal("a loopback address was told")
	}
	if d := m.row(id); d.State != factory.DeliveryWaiting || d.Answer != errPrivate.Message {
		t.Errorf("kept: %s, %q", d.State, d.Answer)
	}

	// A name that resolves to such an address is refused as well, and the channel's own
	// word allows it.
	byName := hook("n", strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
	m.channels["n"] = byName
	id = m.tell("n", "a", factory.ChangeFiring)
	round(t, s)
	if d := m.row(id); len(r.take()) != 0 || d.Answer != errPrivate.Message {
		t.Errorf("a name of a loopback address: %q", d.Answer)
	}
	allowed := hook("p", r.URL)
	allowed.Settings.Private = true
	m.channels["p"] = allowed
	id = m.tell("p", "a", factory.ChangeFiring)
	round(t, s)
	if d := m.row(id); d.State != factory.DeliveryDone {
		t.Errorf("a private channel: %s, %q", d.State, d.Answer)
	}
}

func TestWhatIsPrivate(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "168.63.129.16",
		"0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "198.18.0.1", "192.0.0.192", "240.0.0.1",
		"::", "::1", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fc00::1", "fec0::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
	} {
		if !isPrivate(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"} {
		if isPrivate(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as private", a)
		}
	}
}

func TestCourierIsKeptFromPrivateHosts(t *testing.T) {
	called := 0
	mail := factory.Channel{ID: "m", Name: "m", Kind: factory.ChannelEmail, Settings: factory.ChannelSettings{URL: "smtp://127.0.0.1:25/?from=a@example.com&to=b@example.com"}}
	m := newMemory(mail)
	id := m.tell("m", "a", factory.ChangeFiring)
	s := newSender(m)
	s.AllowPrivate = false
	s.Courier = func(context.Context, factory.Channel, Message) error { called++; return nil }
	round(t, s)
	if d := m.row(id); called != 0 || d.Answer != errPrivate.Message {
		t.Errorf("called %d times, %q", called, d.Answer)
	}
	s.AllowPrivate = true
	m.pass(giveUpAfter / 2)
	round(t, s)
	if d := m.row(id); called != 1 || d.State != factory.DeliveryDone {
		t.Errorf("called %d times, %s", called, d.State)
	}
}

func TestHostsOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"smtp://user:pw@mail.example.com:587/?from=a@b":      "mail.example.com",
		"ntfy://topic?host=10.0.0.1":                         "topic 10.0.0.1",
		"teams://group@tenant/a/b?host=x.webhook.office.com": "x.webhook.office.com",
		"signal:///+1/+2":                                    "localhost",
		"discord://token@id":                                 "",
		"pagerduty:///0123":                                  "",
		"telegram://1:2@telegram?x":                          "",
	} {
		if got := strings.Join(hostsOf(address), " "); got != want {
			t.Errorf("%s dials %q, want %q", address, got, want)
		}
	}
}
