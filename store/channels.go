package store

import (
	"context"
	"encoding/json"
	"errors"

	"tokenfactory/factory"
)

const channelColumns = `id, name, kind, settings, severities, enabled, created_at, updated_at`

const noChannel = "There is no such channel. It may have been deleted."

// UseSeal gives the store the key for what it keeps sealed. It comes before anything
// that reads or writes channels.
func (s *Store) UseSeal(seal *factory.Seal) { s.seal = seal }

var errNoSeal = errors.New("the store has no key for secrets")

// channelDest scans a channel but for its settings, which are sealed.
func channelDest(c *factory.Channel, sealed *string) []any {
	return []any{&c.ID, &c.Name, &c.Kind, sealed, asJSON(&c.Severities), &c.Enabled, asTime(&c.CreatedAt), asTime(&c.UpdatedAt)}
}

func (s *Store) scanChannel(r row) (factory.Channel, error) {
	var c factory.Channel
	var sealed string
	if err := r.Scan(channelDest(&c, &sealed)...); err != nil {
		return c, err
	}
	return c, s.unseal(&c, sealed)
}

// unseal reads a channel's settings. Those of one channel that cannot be read must not
// hide the others.
func (s *Store) unseal(c *factory.Channel, sealed string) error {
	if s.seal == nil {
		return errNoSeal
	}
	text, err := s.seal.Open(sealed, c.ID)
	c.Unreadable = err != nil || json.Unmarshal([]byte(text), &c.Settings) != nil
	if c.Unreadable {
		c.Settings = factory.ChannelSettings{}
	}
	return nil
}

func (s *Store) sealSettings(c factory.Channel) (string, error) {
	if s.seal == nil {
		return "", errNoSeal
	}
	text, err := json.Marshal(c.Settings)
	return s.seal.Seal(string(text), c.ID), err
}

// Channels lists channels by name.
func (s *Store) Channels(ctx context.Context) ([]factory.Channel, error) {
	return all(ctx, s, s.r, "channel", s.scanChannel, `SELECT `+channelColumns+` FROM channels ORDER BY name`)
}

// Channel reads a channel by id.
func (s *Store) Channel(ctx context.Context, id string) (factory.Channel, error) {
	return one(ctx, s, s.r, "channel", noChannel, s.scanChannel, `SELECT `+channelColumns+` FROM channels WHERE id = ?`, id)
}

// CreateChannel adds a channel. It is told what changes from now on.
func (s *Store) CreateChannel(ctx context.Context, c factory.Channel) error {
	sealed, err := s.sealSettings(c)
	if err != nil {
		return err
	}
	return s.exec(ctx, "channel", []unique{{"name", c.Name}}, insert("channels", channelColumns),
		c.ID, c.Name, c.Kind, sealed, toJSON(c.Severities), c.Enabled, micros(c.CreatedAt), micros(c.UpdatedAt))
}

// SaveChannel writes a channel. One that is switched off is not told any more what waits
// for it: switched on again after weeks, it would be told of what is long over.
func (s *Store) SaveChannel(ctx context.Context, c factory.Channel) error {
	sealed, err := s.sealSettings(c)
	if err != nil {
		return err
	}
	return s.InTx(ctx, func(tx *Store) error {
		err := tx.change(ctx, "channel", noChannel, []unique{{"name", c.Name}},
			`UPDATE channels SET name = ?, kind = ?, settings = ?, severities = ?, enabled = ?, updated_at = ? WHERE id = ?`,
			c.Name, c.Kind, sealed, toJSON(c.Severities), c.Enabled, micros(c.UpdatedAt), c.ID)
		if err != nil || c.Enabled {
			return err
		}
		return tx.exec(ctx, "delivery", nil, `UPDATE deliveries SET state = ?, answer = ?, done_at = ? WHERE channel_id = ? AND state = ? AND change <> ?`,
			factory.DeliveryFailed, "The channel was switched off.", micros(c.UpdatedAt), c.ID, factory.DeliveryWaiting, factory.ChangeTest)
	})
}

// DeleteChannel removes a channel with the log of what was told to it.
func (s *Store) DeleteChannel(ctx context.Context, id string) error {
	return s.change(ctx, "channel", noChannel, nil, `DELETE FROM channels WHERE id = ?`, id)
}

// taker is a channel that is switched on.
type taker struct {
	id         string
	severities []factory.Severity
}

// takers lists the channels that are switched on, locked until the transaction ends, so that none is
// switched off or deleted between our look and our queueing.
func (s *Store) takers(ctx context.Context) ([]taker, error) {
	return all(ctx, s, s.q, "channel", func(r row) (taker, error) {
		var t taker
		return t, r.Scan(&t.id, asJSON(&t.severities))
	}, `SELECT id, severities FROM channels WHERE enabled = TRUE ORDER BY id`+s.forUpdate("channels"))
}
