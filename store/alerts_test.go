package store_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func useSeal(t *testing.T, s *store.Store) {
	t.Helper()
	s.UseSeal(must[*factory.Seal](t)(factory.OpenSeal(filepath.Join(t.TempDir(), "seal"))))
}

func channel(id string) factory.Channel {
	return factory.Channel{ID: id, Name: "to " + id, Kind: factory.ChannelWebhook, Settings: factory.ChannelSettings{URL: "https://example.org/" + id, Secret: "secret-" + id},
		Severities: []factory.Severity{factory.Page}, Enabled: true, CreatedAt: start, UpdatedAt: start}
}

func pending(id string) factory.Alert {
	return factory.Alert{ID: id, Subject: "burn/" + id, Rule: factory.RuleBurn, Severity: factory.Page, DeploymentID: "d1", State: factory.AlertPending,
		Title: "It burns.", Detail: json.RawMessage(`{"burn":20}`), PendingAt: start, UpdatedAt: start}
}

func firing(id string) factory.Alert {
	a := pending(id)
	at := start.Add(2 * time.Minute)
	a.State, a.FiringAt, a.UpdatedAt = factory.AlertFiring, &at, at
	return a
}

func resolved(id string) factory.Alert {
	a := firing(id)
	at := start.Add(time.Hour)
	a.State, a.ResolvedAt, a.UpdatedAt = factory.AlertResolved, &at, at
	return a
}

var (
	fires = []factory.Change{factory.ChangeFiring}
	ends  = []factory.Change{factory.ChangeResolved}
	body  = json.RawMessage(`{"version":1}`)
	later = start.Add(time.Hour)
)

// told is what every channel was told or is to be told of an alert: "firing done".
func told(t *testing.T, s *store.Store, alertID string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, d := range must[[]factory.Delivery](t)(s.AlertDeliveries(t.Context(), alertID)) {
		out[d.ChannelID] = append(out[d.ChannelID], string(d.Change)+" "+string(d.State))
	}
	return out
}

// deliver tries all that is due, as the sender does: at the channels named it works.
func deliver(t *testing.T, s *store.Store, now time.Time, works ...string) (sent []string) {
	t.Helper()
	for _, d := range must[[]factory.DueDelivery](t)(s.DueDeliveries(t.Context(), now, 1000)) {
		d.Attempts++
		d.NextAt, d.Answer = now.Add(time.Minute), "503"
		if slices.Contains(works, d.Channel.ID) {
			d.State, d.DoneAt, d.Answer = factory.DeliveryDone, &now, "200"
			sent = append(sent, d.Channel.ID+" "+d.AlertID+" "+string(d.Change))
		}
		ok(t, s.SaveDelivery(t.Context(), d.Delivery))
	}
	return sent
}

func TestAnAlertKeepsEveryField(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		a := firing("a1")
		below := start.Add(3 * time.Minute)
		a.NodeID, a.TenantID, a.BelowAt = "n1", "t1", &below
		ok(t, s.SaveAlert(ctx, pending("a1"), nil, nil, start))
		b := pending("a0")
		b.Subject, b.Detail = "x", nil
		ok(t, s.SaveAlert(ctx, b, nil, nil, start))
		a.NodeID, a.TenantID = "", "" // what it is about does not change
		ok(t, s.SaveAlert(ctx, a, fires, body, start))
		b.Detail = json.RawMessage("{}")
		if got := must[[]factory.Alert](t)(s.OpenAlerts(ctx)); !reflect.DeepEqual(got, []factory.Alert{b, a}) {
			t.Errorf("open %+v", got)
		}
		// Another alert of the same subject is refused while one is open, and not afterwards.
		again := pending("a2")
		again.Subject = a.Subject
		wantKind(t, s.SaveAlert(ctx, again, nil, nil, start), factory.Conflict)
		end := resolved("a1")
		ok(t, s.SaveAlert(ctx, end, ends, body, later))
		ok(t, s.SaveAlert(ctx, again, nil, nil, later))
		if got := must[factory.Alert](t)(s.Alert(ctx, "a1")); !reflect.DeepEqual(got, end) {
			t.Errorf("got %+v, want %+v", got, end)
		}
		wantKind(t, second(s.Alert(ctx, "none")), factory.NotFound)
	})
}

func TestAlertsAreReadInPages(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for i := range 7 {
			a := firing(fmt.Sprintf("a%d", i))
			if i >= 4 {
				a = resolved(a.ID)
			}
			a.PendingAt = start.Add(time.Duration(i/2) * time.Minute) // two at a time
			if i == 6 {
				a.DeploymentID, a.Rule = "d2", factory.RuleDrift
			}
			ok(t, s.SaveAlert(ctx, a, nil, nil, start))
		}
		quiet := resolved("quiet")
		quiet.FiringAt = nil
		ok(t, s.SaveAlert(ctx, quiet, nil, nil, start))
		read := func(f store.AlertFilter, limit int) (ids string) {
			for {
				page, next, err := s.Alerts(ctx, f, limit)
				ok(t, err)
				for _, a := range page {
					ids += a.ID + " "
				}
				if f.Cursor = next; next == "" {
					return strings.TrimSpace(ids)
				}
			}
		}
		hour := start.Add(time.Hour)
		for _, c := range []struct {
			f    store.AlertFilter
			want string
		}{
			{store.AlertFilter{}, "a6 a5 a4 a3 a2 a1 a0"},
			{store.AlertFilter{State: factory.AlertResolved}, "a6 a5 a4"},
			{store.AlertFilter{DeploymentID: "d2"}, "a6"},
			{store.AlertFilter{Rule: factory.RuleDrift}, "a6"},
			{store.AlertFilter{Rule: factory.RuleBurn, State: factory.AlertResolved}, "a5 a4"},
			{store.AlertFilter{DeploymentID: "d1", State: factory.AlertFiring}, "a3 a2 a1 a0"},
			{store.AlertFilter{From: hour, To: hour.Add(time.Hour)}, "a6 a5 a4 a3 a2 a1 a0"},
			{store.AlertFilter{From: hour.Add(time.Second)}, "a3 a2 a1 a0"},
			{store.AlertFilter{To: start.Add(time.Minute)}, "a1 a0"},
		} {
			for _, limit := range []int{0, 1, 2, 3} {
				if got := read(c.f, limit); got != c.want {
					t.Errorf("%+v, %d a page: %s, want %s", c.f, limit, got, c.want)
				}
			}
		}
		_, _, err := s.Alerts(ctx, store.AlertFilter{Cursor: "?"}, 1)
		wantKind(t, err, factory.Invalid)
		ok(t, s.SweepAlerts(ctx, start.AddDate(2, 0, 0)))
		if got := read(store.AlertFilter{}, 0); got != "a3 a2 a1 a0" {
			t.Errorf("after a sweep: %s", got) // what is not over stays
		}
	})
}

func TestDA07ARestartRepeatsNothingAndLosesNothing(t *testing.T) {
	// Each database is opened anew in the middle, as by a control plane that restarts.
	for name, address := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "x.db") },
		"postgres": func(t *testing.T) string { return storetest.PostgresURL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			at := address(t)
			seal := must[*factory.Seal](t)(factory.OpenSeal(filepath.Join(t.TempDir(), "seal")))
			open := func() *store.Store {
				s := must[*store.Store](t)(store.Open(ctx, at))
				s.UseSeal(seal)
				return s
			}
			s := open()
			for _, id := range []string{"R1", "R2"} {
				ok(t, s.CreateChannel(ctx, channel(id)))
			}
			for i := range 15 {
				ok(t, s.SaveAlert(ctx, firing(fmt.Sprintf("a%02d", i)), fires, body, start))
			}
			if sent := deliver(t, s, start, "R1"); len(sent) != 15 {
				t.Fatalf("before the restart: %v", sent)
			}
			ok(t, s.Close())
			s = open()
			t.Cleanup(func() { ok(t, s.Close()) })

			// Ten have recovered. A control plane that was stopped in between saves them twice.
			for range 2 {
				for i := range 10 {
					ok(t, s.SaveAlert(ctx, resolved(fmt.Sprintf("a%02d", i)), ends, body, later))
				}
				for i := 10; i < 15; i++ {
					ok(t, s.SaveAlert(ctx, firing(fmt.Sprintf("a%02d", i)), fires, body, later))
				}
			}
			got := append(deliver(t, s, later, "R1"), deliver(t, s, later.Add(time.Hour), "R1", "R2")...)
			got = append(got, deliver(t, s, later.Add(24*time.Hour), "R1", "R2")...)
			slices.Sort(got)
			var want []string
			for i := range 10 {
				want = append(want, fmt.Sprintf("R1 a%02d resolved", i), fmt.Sprintf("R2 a%02d resolved", i))
			}
			for i := 10; i < 15; i++ {
				want = append(want, fmt.Sprintf("R2 a%02d firing", i))
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("told %v\nwant %v", got, want)
			}
		})
	}
}

func TestWhoIsToldOfAnAlert(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		useSeal(t, s)
		ctx := t.Context()
		tickets, off, all := channel("tickets"), channel("off"), channel("all")
		tickets.Severities, off.Enabled, all.Severities = []factory.Severity{factory.Ticket}, false, []factory.Severity{factory.Page, factory.Ticket}
		for _, c := range []factory.Channel{tickets, off, all} {
			ok(t, s.CreateChannel(ctx, c))
		}
		want := func(id string, want map[string][]string) {
			t.Helper()
			if got := told(t, s, id); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", id, got, want)
			}
		}
		ok(t, s.SaveAlert(ctx, firing("page"), fires, body, start))
		want("page", map[string][]string{"all": {"firing waiting"}})
		deliver(t, s, start, "all")

		// A silence keeps from telling that something fires, and its end with it. Who was told hears the end.
		silence := factory.Silence{ID: "s1", Rule: factory.RuleBurn, DeploymentID: "d1", Reason: "We know.", CreatedBy: "ada@example.org", CreatedAt: start, Until: later.Add(time.Minute)}
		ok(t, s.CreateSilence(ctx, silence))
		ok(t, s.SaveAlert(ctx, firing("silenced"), fires, body, later))
		other := firing("other")
		other.DeploymentID = "d2"
		ok(t, s.SaveAlert(ctx, other, fires, body, later))
		for _, id := range []string{"page", "silenced"} {
			ok(t, s.SaveAlert(ctx, resolved(id), ends, body, later))
		}
		want("page", map[string][]string{"all": {"firing done", "resolved waiting"}})
		want("silenced", map[string][]string{"all": {"firing silenced"}})
		want("other", map[string][]string{"all": {"firing waiting"}})
		if got := must[[]factory.Silence](t)(s.Silences(ctx, later)); !reflect.DeepEqual(got, []factory.Silence{silence}) {
			t.Errorf("silences %+v", got)
		}
		ok(t, s.EndSilence(ctx, "s1", later))
		if got := must[[]factory.Silence](t)(s.Silences(ctx, later)); len(got) != 0 {
			t.Errorf("after its end: %+v", got)
		}
		ok(t, s.SaveAlert(ctx, firing("heard"), fires, body, later))
		want("heard", map[string][]string{"all": {"firing waiting"}})

		// Given up is given up: the end alone would say nothing.
		for _, d := range must[[]factory.Delivery](t)(s.AlertDeliveries(ctx, "heard")) {
			d.State, d.DoneAt = factory.DeliveryFailed, &later
			ok(t, s.SaveDelivery(ctx, d))
		}
		ok(t, s.SaveAlert(ctx, resolved("heard"), ends, body, later))
		want("heard", map[string][]string{"all": {"firing failed"}})
	})
}

func TestASupersededDeliveryIsNotTriedAgain(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		useSeal(t, s)
		ctx := t.Context()
		ok(t, s.CreateChannel(ctx, channel("c")))
		for _, arrives := range []bool{false, true} {
			id := fmt.Sprint("arrives-", arrives)
			ok(t, s.SaveAlert(ctx, firing(id), fires, body, start))
			inFlight := must[[]factory.Delivery](t)(s.AlertDeliveries(ctx, id))[0]
			ok(t, s.SaveAlert(ctx, resolved(id), ends, body, later))
			inFlight.Attempts, inFlight.NextAt = 1, later
			want := "firing superseded"
			if arrives {
				inFlight.State, inFlight.DoneAt = factory.DeliveryDone, &later
				want = "firing done"
			}
			ok(t, s.SaveDelivery(ctx, inFlight))
			if got := told(t, s, id)["c"]; !slices.Equal(got, []string{want, "resolved waiting"}) {
				t.Errorf("%s: %v", id, got)
			}
		}
	})
}
