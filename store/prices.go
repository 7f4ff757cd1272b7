package store

import (
	"context"

	"tokenfactory/factory"
)

// selectedPrice are the columns that priceDest takes, of prices v.
const selectedPrice = `v.id, v.deployment_id, v.free, v.currency, v.input, v.cached_input, v.output, v.valid_from`

func priceDest(p *factory.Price) []any {
	return []any{&p.ID, &p.DeploymentID, &p.Free, &p.Currency, &p.Input, &p.CachedInput, &p.Output, asTime(&p.ValidFrom)}
}

func scanPrice(r row) (factory.Price, error) {
	var p factory.Price
	return p, r.Scan(priceDest(&p)...)
}

// Prices maps ids to all versions of all prices: usage names the version that it
// was served under.
func (s *Store) Prices(ctx context.Context) (map[string]factory.Price, error) {
	list, err := all(ctx, s, s.r, "price", scanPrice, `SELECT `+selectedPrice+` FROM prices v`)
	out := make(map[string]factory.Price, len(list))
	for _, p := range list {
		out[p.ID] = p
	}
	return out, err
}

// savePrice adds a version when the price is another than the newest.
func (s *Store) savePrice(ctx context.Context, d factory.Deployment) error {
	if d.Price == nil {
		return nil
	}
	newest, err := one(ctx, s, s.r, "price", "The deployment has no price.", scanPrice,
		`SELECT `+selectedPrice+` FROM prices v WHERE v.deployment_id = ? ORDER BY v.version DESC LIMIT 1`, d.ID)
	if err != nil {
		return err
	}
	if d.Price.Same(newest) {
		return nil
	}
	if d.Price.ID == newest.ID { // the version that was read, edited in place
		p := *d.Price
		p.ID, p.ValidFrom = "", d.UpdatedAt
		d.Price = &p
	}
	return s.createPrice(ctx, d)
}

func (s *Store) createPrice(ctx context.Context, d factory.Deployment) error {
	p := *d.Price
	if p.ID == "" {
		p.ID = factory.NewID()
	}
	if p.ValidFrom.IsZero() {
		p.ValidFrom = d.UpdatedAt
	}
	return s.exec(ctx, "price", nil, `INSERT INTO prices (id, deployment_id, version, free, currency, input, cached_input, output, valid_from)
		VALUES (?, ?, (SELECT COALESCE(MAX(w.version), 0) + 1 FROM prices w WHERE w.deployment_id = ?), ?, ?, ?, ?, ?, ?)`,
		p.ID, d.ID, d.ID, p.Free, p.Currency, p.Input, p.CachedInput, p.Output, micros(p.ValidFrom))
}
