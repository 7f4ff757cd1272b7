package store

import (
	"context"

	"tokenfactory/factory"
)

const llmColumns = `id, name, provider_id, source, location, description, context_length, parameters_b,
	weight_bits, layers, kv_heads, head_size, embedding, created_at`

// selectedLLM are the columns that scanLLM reads, of models m joined with providers p.
const selectedLLM = `m.id, m.name, m.provider_id, p.name, m.source, m.location, m.description, m.context_length, m.parameters_b,
	m.weight_bits, m.layers, m.kv_heads, m.head_size, m.embedding, m.created_at`

const selectLLMs = `SELECT ` + selectedLLM + ` FROM models m JOIN providers p ON p.id = m.provider_id `

// llmDest is where selectedLLM goes.
func llmDest(m *factory.LLM) []any {
	return []any{&m.ID, &m.Name, &m.ProviderID, &m.ProviderName, &m.Source, &m.Location, &m.Description, &m.ContextLength, &m.Parameters,
		&m.WeightBits, &m.Layers, &m.KVHeads, &m.HeadSize, &m.Embedding, asTime(&m.CreatedAt)}
}

func scanLLM(r row) (factory.LLM, error) {
	var m factory.LLM
	err := r.Scan(llmDest(&m)...)
	m.Provider = m.ProviderName
	return m, err
}

const noLLM = "There is no such model. It may have been deleted."

// LLM reads a catalogue entry by id.
func (s *Store) LLM(ctx context.Context, id string) (factory.LLM, error) {
	return one(ctx, s, s.r, "model", noLLM, scanLLM, selectLLMs+`WHERE m.id = ?`, id)
}

// LLMByName reads a catalogue entry by our name of it.
func (s *Store) LLMByName(ctx context.Context, name string) (factory.LLM, error) {
	return one(ctx, s, s.r, "model", "There is no model named "+name+".", scanLLM, selectLLMs+`WHERE m.name = ?`, name)
}

// AllLLMs lists the catalogue by name.
func (s *Store) AllLLMs(ctx context.Context) ([]factory.LLM, error) {
	return all(ctx, s, s.r, "model", scanLLM, selectLLMs+`ORDER BY m.name`)
}

// CreateLLM adds a catalogue entry.
func (s *Store) CreateLLM(ctx context.Context, m factory.LLM) error {
	return s.exec(ctx, "model", []unique{{"name", m.Name}}, insert("models", llmColumns),
		m.ID, m.Name, m.ProviderID, m.Source, m.Location, m.Description, m.ContextLength, m.Parameters,
		m.WeightBits, m.Layers, m.KVHeads, m.HeadSize, m.Embedding, micros(m.CreatedAt))
}

// SaveLLM writes a catalogue entry.
func (s *Store) SaveLLM(ctx context.Context, m factory.LLM) error {
	return s.change(ctx, "model", noLLM, []unique{{"name", m.Name}},
		`UPDATE models SET name = ?, provider_id = ?, source = ?, location = ?, description = ?, context_length = ?, parameters_b = ?,
		weight_bits = ?, layers = ?, kv_heads = ?, head_size = ?, embedding = ? WHERE id = ?`,
		m.Name, m.ProviderID, m.Source, m.Location, m.Description, m.ContextLength, m.Parameters,
		m.WeightBits, m.Layers, m.KVHeads, m.HeadSize, m.Embedding, m.ID)
}

// DeleteLLM removes a catalogue entry. It is refused while deployments serve it.
func (s *Store) DeleteLLM(ctx context.Context, id string) error {
	return s.deleteUnused(ctx, "model", `DELETE FROM models WHERE id = ?`, noLLM, id,
		user{"deployment", `SELECT name FROM deployments WHERE model_id = ? AND deleted_at IS NULL ORDER BY name`})
}
