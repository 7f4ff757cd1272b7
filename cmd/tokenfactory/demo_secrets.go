package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/crypto/bcrypt"

	"tokenfactory/factory"
	"tokenfactory/web/session"
)

//go:embed demodata/factory.yaml
var demoDocuments []byte

// Names inside the demo's documents that its code has to know.
const (
	demoChat      = "qwen2-chat"
	demoCoder     = "coder"
	demoBatch     = "nightly-batch"
	demoKeyAcme   = "robot-app"
	demoKeyGlobex = "research-app"
	demoOperator  = "operator@demo.example"
	demoTenant    = "ada@acme.example"
)

var demoOrder = []string{demoChat, demoCoder, demoBatch}

// demoSecrets are what the demo was told once and needs again when it is started
// a second time on the same folder.
type demoSecrets struct {
	file       string
	Operator   login             `json:"operator"`
	Tenant     login             `json:"tenant"`
	Management string            `json:"management"`
	Keys       map[string]string `json:"keys"`  // by key name
	Joins      map[string]string `json:"joins"` // by cluster name
}

func readSecrets(file string) (*demoSecrets, error) {
	s := &demoSecrets{file: file, Keys: map[string]string{}, Joins: map[string]string{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove the folder to start anew: %w", file, err)
	}
	return s, nil
}

func (s *demoSecrets) save() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := s.file + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, s.file)
}

// setUp creates the operator and applies the documents over HTTP, as any script
// would. Done again it changes nothing.
func (s *demoSecrets) setUp(ctx context.Context, a *app, base string) error {
	if s.Operator.Email == "" {
		secret, _ := factory.NewSecret("")
		s.Operator = login{demoOperator, secret[:16]}
		hash, err := bcrypt.GenerateFromPassword([]byte(s.Operator.Password), bcrypt.DefaultCost)
		if err != nil {
			return err
		}
		user := factory.User{ID: factory.NewID(), Email: demoOperator, Name: "Demo operator", PasswordHash: string(hash), Operator: true, CreatedAt: factory.Now()}
		if err := a.store.CreateUser(ctx, user); err != nil {
			return err
		}
		if s.Management, err = session.NewManagementToken(ctx, a.store); err != nil {
			return err
		}
		if err := s.save(); err != nil {
			return err
		}
	}
	docs, err := readDocuments(bytes.TrimSpace(demoDocuments))
	if err != nil {
		return err
	}
	named, err := renewRevoked(ctx, a.store, docs)
	if err != nil {
		return err
	}
	results, err := postDocuments(ctx, base, s.Management, docs)
	if err != nil {
		return err
	}
	for _, r := range results {
		switch {
		case r.Kind == "cluster" && r.Secrets["join_token"] != "":
			s.Joins[r.Name] = r.Secrets["join_token"]
		case r.Kind == "key" && r.Secrets["key"] != "":
			s.Keys[named[r.Name]] = r.Secrets["key"]
		case r.Kind == "member" && r.Name == demoTenant && r.Secrets["password"] != "":
			s.Tenant = login{demoTenant, r.Secrets["password"]}
		}
	}
	return s.save()
}

// keysReader is what renewing keys needs of the store.
type keysReader interface {
	TenantByName(ctx context.Context, name string) (factory.Tenant, error)
	KeyByName(ctx context.Context, tenantID, name string) (factory.Key, error)
}

// renewRevoked gives another name to each key of the documents that somebody has
// revoked while trying the demo, so that a new one is made: the name of a key is
// never used again. It returns which key of the documents stands behind which name.
func renewRevoked(ctx context.Context, st keysReader, docs []document) (map[string]string, error) {
	named := map[string]string{}
	for i, d := range docs {
		spec, ok := d.Spec.(map[string]any)
		if d.Kind != "key" || !ok {
			continue
		}
		tenantName, _ := spec["tenant"].(string)
		tenant, err := st.TenantByName(ctx, tenantName)
		for n := 2; err == nil; n++ {
			var k factory.Key
			if k, err = st.KeyByName(ctx, tenant.ID, docs[i].Name); err != nil || k.RevokedAt == nil {
				break
			}
			docs[i].Name = fmt.Sprintf("%s-%d", d.Name, n)
		}
		if err != nil && factory.KindOf(err) != factory.NotFound {
			return nil, err
		}
		named[docs[i].Name] = d.Name
	}
	return named, nil
}

// deploymentsReader is what waiting for the demo needs of the store.
type deploymentsReader interface {
	Replicas(ctx context.Context, deploymentID string) ([]factory.Replica, error)
}

func waitReady(ctx context.Context, st deploymentsReader, deployments []factory.Deployment) error {
	deadline := time.NewTimer(readyWithin)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var waiting string
		for _, d := range deployments {
			replicas, err := st.Replicas(ctx, d.ID)
			if err != nil {
				return err
			}
			if state, reason := d.Status(replicas, nil); state != factory.Ready && !d.Stopped {
				waiting = fmt.Sprintf("%s is %s: %s", d.Name, state, reason)
			}
		}
		if waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-deadline.C:
			return fmt.Errorf("not everything came up within %s: %s", readyWithin, waiting)
		case <-tick.C:
		}
	}
}
