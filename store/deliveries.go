package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"tokenfactory/factory"
)

const deliveryColumns = `id, alert_id, channel_id, change, payload, state, attempts, next_at, answer, created_at, done_at`

func deliveryDest(d *factory.Delivery) []any {
	return []any{&d.ID, &d.AlertID, &d.ChannelID, &d.Change, asJSON(&d.Payload), &d.State, &d.Attempts, asTime(&d.NextAt), &d.Answer, asTime(&d.CreatedAt), asOptTime(&d.DoneAt)}
}

func scanDelivery(r row) (factory.Delivery, error) {
	var d factory.Delivery
	return d, r.Scan(deliveryDest(&d)...)
}

// queue makes the deliveries of one change of an alert.
//
// That it fires is told to every channel that takes its severity, unless a silence covers
// it. That it is over is told to whom it was told that it fires, silence or not: to them
// it would go on for ever. Who has not heard that it fires, because the receiver did not answer
// until now, hears the end alone: the firing that still waits is superseded. Who was
// never to hear of it, or was given up, hears nothing.
func (s *Store) queue(ctx context.Context, a factory.Alert, change factory.Change, payload json.RawMessage, now time.Time) error {
	silenced, err := s.silenced(ctx, a, now)
	if err != nil {
		return err
	}
	channels, err := s.takers(ctx)
	if err != nil {
		return err
	}
	firing, err := s.firing(ctx, a.ID)
	if err != nil {
		return err
	}
	for _, channel := range channels {
		state := factory.DeliveryWaiting
		told, heard := firing[channel.id]
		switch {
		case change == factory.ChangeFiring && !slices.Contains(channel.severities, a.Severity):
			continue
		case change == factory.ChangeFiring && silenced:
			state = factory.DeliverySilenced
		case change == factory.ChangeResolved && heard && told == factory.DeliveryWaiting:
			if err := s.exec(ctx, "delivery", nil, `UPDATE deliveries SET state = ?, done_at = ? WHERE alert_id = ? AND channel_id = ? AND change = ?`,
				factory.DeliverySuperseded, micros(now), a.ID, channel.id, factory.ChangeFiring); err != nil {
				return err
			}
			if silenced {
				state = factory.DeliverySilenced
			}
		case change == factory.ChangeResolved && told != factory.DeliveryDone:
			continue
		}
		d := factory.Delivery{ID: factory.NewOrderedID(now), AlertID: a.ID, ChannelID: channel.id, Change: change, Payload: payload, State: state, NextAt: now, CreatedAt: now}
		if state != factory.DeliveryWaiting {
			d.DoneAt = &now
		}
		if err := s.createDelivery(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// firing is how far each channel got with being told that an alert fires. Locked, so that
// whoever delivers it just now has said so before or finds it superseded.
func (s *Store) firing(ctx context.Context, alertID string) (map[string]factory.DeliveryState, error) {
	list, err := all(ctx, s, s.q, "delivery", scanDelivery, `SELECT `+deliveryColumns+` FROM deliveries
		WHERE alert_id = ? AND change = ? ORDER BY id`+s.forUpdate("deliveries"), alertID, factory.ChangeFiring)
	states := map[string]factory.DeliveryState{}
	for _, d := range list {
		states[d.ChannelID] = d.State
	}
	return states, err
}

func (s *Store) createDelivery(ctx context.Context, d factory.Delivery) error {
	if len(d.Payload) == 0 {
		d.Payload = json.RawMessage("{}")
	}
	return s.exec(ctx, "delivery", nil, insert("deliveries", deliveryColumns)+` ON CONFLICT (alert_id, channel_id, change) DO NOTHING`,
		d.ID, d.AlertID, d.ChannelID, d.Change, toJSON(d.Payload), d.State, d.Attempts, micros(d.NextAt), clean(d.Answer), micros(d.CreatedAt), optMicros(d.DoneAt))
}

// QueueTest queues something to be told to one channel, switched off or not, to see whether it arrives.
func (s *Store) QueueTest(ctx context.Context, channelID string, payload json.RawMessage, now time.Time) (factory.Delivery, error) {
	id := factory.NewOrderedID(now)
	d := factory.Delivery{ID: id, AlertID: id, ChannelID: channelID, Change: factory.ChangeTest, Payload: payload,
		State: factory.DeliveryWaiting, NextAt: now, CreatedAt: now}
	return d, s.createDelivery(ctx, d)
}

// DueDeliveries lists what has to be told by now, what waits the longest first.
func (s *Store) DueDeliveries(ctx context.Context, now time.Time, limit int) ([]factory.DueDelivery, error) {
	return all(ctx, s, s.r, "delivery", func(r row) (factory.DueDelivery, error) {
		var d factory.DueDelivery
		var sealed string
		if err := r.Scan(append(deliveryDest(&d.Delivery), channelDest(&d.Channel, &sealed)...)...); err != nil {
			return d, err
		}
		return d, s.unseal(&d.Channel, sealed)
	}, `SELECT d.id, d.alert_id, d.channel_id, d.change, d.payload, d.state, d.attempts, d.next_at, d.answer, d.created_at, d.done_at,
		c.id, c.name, c.kind, c.settings, c.severities, c.enabled, c.created_at, c.updated_at
		FROM deliveries d JOIN channels c ON c.id = d.channel_id
		WHERE d.state = ? AND d.next_at <= ? ORDER BY d.next_at, d.id LIMIT ?`, factory.DeliveryWaiting, micros(now), limit)
}

// SaveDelivery keeps what became of an attempt. One that was superseded meanwhile is not tried
// again, and one whose channel is gone is forgotten.
func (s *Store) SaveDelivery(ctx context.Context, d factory.Delivery) error {
	return s.exec(ctx, "delivery", nil, `UPDATE deliveries SET attempts = ?, next_at = ?, answer = ?,
		done_at = CASE WHEN state <> 'waiting' AND ? <> 'done' THEN done_at ELSE CAST(? AS BIGINT) END,
		state = CASE WHEN state <> 'waiting' AND ? <> 'done' THEN state ELSE ? END WHERE id = ?`,
		d.Attempts, micros(d.NextAt), clean(d.Answer), d.State, optMicros(d.DoneAt), d.State, d.State, d.ID)
}

// DeliveriesOf reads a page of what was told to a channel, newest first, and the cursor
// of the next page, which is empty at the end.
func (s *Store) DeliveriesOf(ctx context.Context, channelID, cursor string, limit int) (list []factory.Delivery, next string, err error) {
	return page(ctx, s, "delivery", scanDelivery, `SELECT `+deliveryColumns+` FROM deliveries`, "created_at", []string{"channel_id = ?"}, []any{channelID}, cursor, limit,
		func(d factory.Delivery) (time.Time, string) { return d.CreatedAt, d.ID })
}

// AlertDeliveries lists who was told of an alert, oldest first.
func (s *Store) AlertDeliveries(ctx context.Context, alertID string) ([]factory.Delivery, error) {
	return all(ctx, s, s.r, "delivery", scanDelivery, `SELECT `+deliveryColumns+` FROM deliveries WHERE alert_id = ? ORDER BY created_at, id`, alertID)
}
