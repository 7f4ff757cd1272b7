package main

import (
	"context"
	"testing"
	"time"

	"tokenfactory/factory"
)

type someKeys map[string]factory.Key

func (s someKeys) TenantByName(_ context.Context, name string) (factory.Tenant, error) {
	if name != "acme" {
		return factory.Tenant{}, factory.Errorf(factory.NotFound, "There is no tenant %s.", name)
	}
	return factory.Tenant{ID: "t", Name: name}, nil
}

func (s someKeys) KeyByName(_ context.Context, _, name string) (factory.Key, error) {
	k, ok := s[name]
	if !ok {
		return k, factory.Errorf(factory.NotFound, "There is no key %s.", name)
	}
	return k, nil
}

func TestTheDemoGetsNewKeysForThoseThatWereRevoked(t *testing.T) {
	revoked := time.Now()
	docs := []document{
		{Kind: "key", Name: "a", Spec: map[string]any{"tenant": "acme"}},
		{Kind: "key", Name: "b", Spec: map[string]any{"tenant": "acme"}},
		{Kind: "key", Name: "c", Spec: map[string]any{"tenant": "new"}},
	}
	named, err := renewRevoked(t.Context(), someKeys{"a": {RevokedAt: &revoked}, "a-2": {RevokedAt: &revoked}, "b": {}}, docs)
	if err != nil {
		t.Fatal(err)
	}
	if docs[0].Name != "a-3" || docs[1].Name != "b" || docs[2].Name != "c" || named["a-3"] != "a" || named["b"] != "b" || named["c"] != "c" {
		t.Errorf("documents %+v, names %v", docs, named)
	}
}
