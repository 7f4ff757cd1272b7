package store_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestChannelsAreKeptSealed(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		a, b := channel("a"), channel("b")
		if err := s.CreateChannel(ctx, a); err == nil {
			t.Error("a channel was kept without a key for its secrets")
		}
		useSeal(t, s)
		ok(t, s.CreateChannel(ctx, b))
		ok(t, s.InTx(ctx, func(tx *store.Store) error { return tx.CreateChannel(ctx, a) }))
		wantKind(t, s.CreateChannel(ctx, a), factory.Conflict)
		if got := must[[]factory.Channel](t)(s.Channels(ctx)); !reflect.DeepEqual(got, []factory.Channel{a, b}) {
			t.Errorf("channels %+v", got)
		}
		a.Name, a.Kind, a.Settings, a.Severities, a.Enabled, a.UpdatedAt = "new", factory.ChannelSlack, factory.ChannelSettings{URL: "slack://x", Private: true}, nil, false, later
		ok(t, s.SaveChannel(ctx, a))
		if got := must[factory.Channel](t)(s.Channel(ctx, "a")); !reflect.DeepEqual(got, a) {
			t.Errorf("got %+v, want %+v", got, a)
		}

		// With another key the channels are there, and their secrets are not.
		useSeal(t, s)
		for _, c := range must[[]factory.Channel](t)(s.Channels(ctx)) {
			if !c.Unreadable || c.Settings != (factory.ChannelSettings{}) {
				t.Errorf("read with another key: %+v", c)
			}
		}
		ok(t, s.SaveChannel(ctx, a))
		if got := must[factory.Channel](t)(s.Channel(ctx, "a")); got.Unreadable || got.Settings != a.Settings {
			t.Errorf("written anew: %+v", got)
		}
		ok(t, s.DeleteChannel(ctx, "a"))
		wantKind(t, second(s.Channel(ctx, "a")), factory.NotFound)
		wantKind(t, s.SaveChannel(ctx, a), factory.NotFound)
		wantKind(t, s.DeleteChannel(ctx, "a"), factory.NotFound)
	})
}

func TestDeliveriesAreLogged(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		useSeal(t, s)
		ctx := t.Context()
		c := channel("c")
		ok(t, s.CreateChannel(ctx, c))
		for i := range 5 {
			ok(t, s.SaveAlert(ctx, firing(fmt.Sprint(i)), fires, body, start.Add(time.Duration(i)*time.Second)))
		}
		c.Enabled, c.UpdatedAt = false, later
		ok(t, s.SaveChannel(ctx, c)) // what waits is told no more
		test := must[factory.Delivery](t)(s.QueueTest(ctx, "c", json.RawMessage(`{"test":true}`), later))
		wantKind(t, second(s.QueueTest(ctx, "gone", body, later)), factory.Conflict)
		if due := must[[]factory.DueDelivery](t)(s.DueDeliveries(ctx, later, 10)); !reflect.DeepEqual(due, []factory.DueDelivery{{Delivery: test, Channel: c}}) {
			t.Errorf("due %+v", due)
		}
		if due := must[[]factory.DueDelivery](t)(s.DueDeliveries(ctx, later.Add(-time.Second), 10)); len(due) != 0 {
			t.Errorf("due before its time: %+v", due)
		}
		var log []factory.Delivery
		for cursor := ""; ; {
			page, next, err := s.DeliveriesOf(ctx, "c", cursor, 2)
			ok(t, err)
			log = append(log, page...)
			if cursor = next; next == "" {
				break
			}
		}
		if len(log) != 6 || !reflect.DeepEqual(log[0], test) {
			t.Fatalf("log %+v", log)
		}
		for i, d := range log[1:] {
			if d.AlertID != fmt.Sprint(4-i) || d.State != factory.DeliveryFailed || d.Answer == "" || d.DoneAt == nil || string(d.Payload) != string(body) {
				t.Errorf("entry %d: %+v", i, d)
			}
		}
		ok(t, s.SweepAlerts(ctx, start.AddDate(2, 0, 0)))
		left, _, err := s.DeliveriesOf(ctx, "c", "", 10)
		ok(t, err)
		if !reflect.DeepEqual(left, []factory.Delivery{test}) { // it was never told
			t.Errorf("after a sweep: %+v", left)
		}
		ok(t, s.DeleteChannel(ctx, "c"))
		ok(t, s.SaveDelivery(ctx, test))
		if left, _, _ := s.DeliveriesOf(ctx, "c", "", 10); len(left) != 0 {
			t.Errorf("of a deleted channel: %+v", left)
		}
	})
}
