package store

import (
	"context"
	"strings"

	"tokenfactory/factory"
)

const clusterColumns = `id, name, description, created_at`

func scanCluster(r row) (factory.Cluster, error) {
	var c factory.Cluster
	return c, r.Scan(&c.ID, &c.Name, &c.Description, asTime(&c.CreatedAt))
}

const noCluster = "There is no such cluster. It may have been deleted."

// Cluster reads a cluster by id.
func (s *Store) Cluster(ctx context.Context, id string) (factory.Cluster, error) {
	return one(ctx, s, s.r, "cluster", noCluster, scanCluster, `SELECT `+clusterColumns+` FROM clusters WHERE id = ?`, id)
}

// ClusterByName reads a cluster by name.
func (s *Store) ClusterByName(ctx context.Context, name string) (factory.Cluster, error) {
	return one(ctx, s, s.r, "cluster", "There is no cluster named "+name+".", scanCluster,
		`SELECT `+clusterColumns+` FROM clusters WHERE name = ?`, name)
}

// AllClusters lists clusters by name.
func (s *Store) AllClusters(ctx context.Context) ([]factory.Cluster, error) {
	return all(ctx, s, s.r, "cluster", scanCluster, `SELECT `+clusterColumns+` FROM clusters ORDER BY name`)
}

// CreateCluster adds a cluster.
func (s *Store) CreateCluster(ctx context.Context, c factory.Cluster) error {
	return s.exec(ctx, "cluster", []unique{{"name", c.Name}}, insert("clusters", clusterColumns),
		c.ID, c.Name, c.Description, micros(c.CreatedAt))
}

// SaveCluster writes a cluster's name and description.
func (s *Store) SaveCluster(ctx context.Context, c factory.Cluster) error {
	return s.change(ctx, "cluster", noCluster, []unique{{"name", c.Name}},
		`UPDATE clusters SET name = ?, description = ? WHERE id = ?`, c.Name, c.Description, c.ID)
}

// DeleteCluster removes a cluster and its join tokens. It is refused while nodes,
// endpoints or deployments are part of it.
func (s *Store) DeleteCluster(ctx context.Context, id string) error {
	return s.deleteUnused(ctx, "cluster", `DELETE FROM clusters WHERE id = ?`, noCluster, id,
		user{"node", `SELECT name FROM nodes WHERE cluster_id = ? ORDER BY name`},
		user{"endpoint", `SELECT name FROM endpoints WHERE cluster_id = ? ORDER BY name`},
		user{"deployment", `SELECT name FROM deployments WHERE cluster_id = ? AND deleted_at IS NULL ORDER BY name`})
}

// user is a kind of thing that can be in the way of a deletion, and the query
// that names those that are.
type user struct{ noun, query string }

// deleteUnused deletes what nothing uses, or says what does.
func (s *Store) deleteUnused(ctx context.Context, noun, query, missing, id string, users ...user) error {
	return s.InTx(ctx, func(tx *Store) error {
		var by []string
		for _, u := range users {
			names, err := all(ctx, tx, tx.r, u.noun, scanText, u.query, id)
			if err != nil {
				return err
			}
			if len(names) > 0 {
				by = append(by, listOf(u.noun, names))
			}
		}
		if len(by) > 0 {
			return factory.Errorf(factory.Conflict, "The %s is still used by %s. Move or delete what uses it first.", noun, strings.Join(by, ", "))
		}
		err := tx.change(ctx, noun, missing, nil, query, id)
		if isForeignKey(err) { // somebody began to use it just now
			return &factory.Error{Kind: factory.Conflict, Message: "The " + noun + " is still used by something else. Load the page again to see by what.", Err: err}
		}
		return err
	})
}

// listOf names a few things of one kind: "endpoint chat", "nodes a, b, c and 4 more".
func listOf(noun string, names []string) string {
	const shown = 3
	if len(names) == 1 {
		return noun + " " + names[0]
	}
	if len(names) > shown {
		return noun + "s " + strings.Join(names[:shown], ", ") + " and " + itoa(len(names)-shown) + " more"
	}
	return noun + "s " + strings.Join(names, ", ")
}
