package store

import (
	"context"

	"tokenfactory/factory"
)

const endpointColumns = `id, name, hostname, cluster_id, created_at`

const selectEndpoints = `SELECT e.id, e.name, e.hostname, e.cluster_id, c.name, e.created_at
	FROM endpoints e JOIN clusters c ON c.id = e.cluster_id `

func scanEndpoint(r row) (factory.Endpoint, error) {
	var e factory.Endpoint
	return e, r.Scan(&e.ID, &e.Name, &e.Hostname, &e.ClusterID, &e.ClusterName, asTime(&e.CreatedAt))
}

const noEndpoint = "There is no such endpoint. It may have been deleted."

// Endpoint reads an endpoint by id.
func (s *Store) Endpoint(ctx context.Context, id string) (factory.Endpoint, error) {
	return one(ctx, s, s.r, "endpoint", noEndpoint, scanEndpoint, selectEndpoints+`WHERE e.id = ?`, id)
}

// EndpointByName reads an endpoint by name.
func (s *Store) EndpointByName(ctx context.Context, name string) (factory.Endpoint, error) {
	return one(ctx, s, s.r, "endpoint", "There is no endpoint named "+name+".", scanEndpoint, selectEndpoints+`WHERE e.name = ?`, name)
}

// AllEndpoints lists endpoints by name.
func (s *Store) AllEndpoints(ctx context.Context) ([]factory.Endpoint, error) {
	return all(ctx, s, s.r, "endpoint", scanEndpoint, selectEndpoints+`ORDER BY e.name`)
}

// CreateEndpoint adds an endpoint.
func (s *Store) CreateEndpoint(ctx context.Context, e factory.Endpoint) error {
	return s.exec(ctx, "endpoint", []unique{{"name", e.Name}, {"hostname", e.Hostname}}, insert("endpoints", endpointColumns),
		e.ID, e.Name, e.Hostname, e.ClusterID, micros(e.CreatedAt))
}

// SaveEndpoint writes an endpoint.
func (s *Store) SaveEndpoint(ctx context.Context, e factory.Endpoint) error {
	return s.change(ctx, "endpoint", noEndpoint, []unique{{"name", e.Name}, {"hostname", e.Hostname}},
		`UPDATE endpoints SET name = ?, hostname = ?, cluster_id = ? WHERE id = ?`, e.Name, e.Hostname, e.ClusterID, e.ID)
}

// DeleteEndpoint removes an endpoint. It is refused while deployments are behind it.
func (s *Store) DeleteEndpoint(ctx context.Context, id string) error {
	return s.deleteUnused(ctx, "endpoint", `DELETE FROM endpoints WHERE id = ?`, noEndpoint, id,
		user{"deployment", `SELECT name FROM deployments WHERE endpoint_id = ? AND deleted_at IS NULL ORDER BY name`})
}
