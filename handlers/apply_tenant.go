package handlers

import (
	"context"
	"crypto/rand"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/web/session"
)

// Tenant creates or changes a tenant.
func (a *Apply) Tenant(ctx context.Context, tx *store.Store, name string, spec factory.TenantSpec) (Result, error) {
	errs := spec.Validate()
	factory.CheckName(errs, "name", name)
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	title := strings.TrimSpace(spec.Title)
	if title == "" {
		title = name
	}
	limits := spec.Limits.WithDefaults()
	t, err := tx.TenantByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	if exists {
		if t.Title == title && t.Limits.WithDefaults() == limits {
			return Result{Outcome: Unchanged, ID: t.ID}, nil
		}
		t.Title, t.Limits = title, limits
		return Result{Outcome: Changed, ID: t.ID}, tx.SaveTenant(ctx, t)
	}
	t = factory.Tenant{ID: factory.NewID(), Name: name, Title: title, Limits: limits, CreatedAt: a.now()}
	return Result{Outcome: Created, ID: t.ID}, tx.CreateTenant(ctx, t)
}

// Member gives the person with an e-mail address a role in a tenant. A person who
// is new gets an account; the password of one who is known is theirs and is
// never touched from here.
func (a *Apply) Member(ctx context.Context, tx *store.Store, email string, spec factory.MemberSpec) (Result, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	errs := spec.Validate()
	factory.CheckEmail(errs, "name", email)
	tenant, err := lookUp(ctx, errs, "tenant", "tenant", spec.Tenant, tx.TenantByName)
	if err != nil {
		return Result{}, err
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	u, err := tx.UserByEmail(ctx, email)
	known, err := found(err)
	if err != nil {
		return Result{}, err
	}
	result := Result{Outcome: Created}
	if known {
		m, err := tx.Membership(ctx, tenant.ID, u.ID)
		member, err := found(err)
		if err != nil {
			return Result{}, err
		}
		if member && m.Role == spec.Role {
			return Result{Outcome: Unchanged, ID: u.ID}, nil
		}
		if member {
			result.Outcome = Changed
		}
	} else if u, result.Secrets, err = a.person(ctx, tx, email, spec); err != nil {
		return Result{}, err
	}
	result.ID = u.ID
	return result, tx.SaveMembership(ctx, factory.Membership{
		TenantID: tenant.ID, TenantName: tenant.Name, TenantTitle: tenant.Title,
		UserID: u.ID, Email: u.Email, Name: u.Name, Role: spec.Role, CreatedAt: a.now(),
	})
}

// person creates an account; the secrets hold its password if it was made here.
func (a *Apply) person(ctx context.Context, tx *store.Store, email string, spec factory.MemberSpec) (factory.User, map[string]string, error) {
	password := spec.Password
	var secrets map[string]string
	if password == "" {
		password = strings.ToLower(rand.Text())
		secrets = map[string]string{SecretPassword: password}
	}
	hash, err := session.HashPassword(password)
	if err != nil {
		return factory.User{}, nil, err
	}
	u := factory.User{ID: factory.NewID(), Email: email, Name: strings.TrimSpace(spec.Name), PasswordHash: hash, CreatedAt: a.now()}
	return u, secrets, tx.CreateUser(ctx, u)
}

// Key creates a key of a tenant and returns its secret. Of a key that exists only the
// limits change: a spec that differs in anything else is refused, not ignored.
func (a *Apply) Key(ctx context.Context, tx *store.Store, name, createdBy string, spec factory.KeySpec) (Result, error) {
	errs := spec.Validate()
	factory.CheckName(errs, "name", name)
	tenant, err := lookUp(ctx, errs, "tenant", "tenant", spec.Tenant, tx.TenantByName)
	if err != nil {
		return Result{}, err
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	if spec.Scope == "" {
		spec.Scope = factory.ScopeInference
	}
	expires, err := spec.Expiry()
	if err != nil {
		return Result{}, err
	}
	k, err := tx.KeyByName(ctx, tenant.ID, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	if exists {
		if err := differsFrom(k, spec).Err(); err != nil {
			return Result{}, err
		}
		return a.KeyLimits(ctx, tx, k, spec.Limits)
	}
	if expires != nil && !expires.After(a.now()) {
		return Result{}, factory.FieldErrors{"expires_at": "This moment has passed. Give a later one, or none for a key that does not expire."}
	}
	secret, hash := factory.NewSecret(factory.PrefixKey)
	k = factory.Key{
		ID: factory.NewID(), TenantID: tenant.ID, TenantName: tenant.Name, Name: name,
		Prefix: factory.SecretPrefix(secret), Hash: hash, Scope: spec.Scope,
		Limits: spec.Limits.WithDefaults(), CreatedBy: createdBy, CreatedAt: a.now(), ExpiresAt: expires,
	}
	return Result{Outcome: Created, ID: k.ID, Secrets: map[string]string{SecretKey: secret}}, tx.CreateKey(ctx, k)
}

// KeyLimits gives a key other limits. They hold for requests from then on; those that
// are open keep what they have booked.
func (a *Apply) KeyLimits(ctx context.Context, tx *store.Store, k factory.Key, limits factory.Limits) (Result, error) {
	if err := limits.Validate().Err(); err != nil {
		return Result{}, err
	}
	limits = limits.WithDefaults()
	if k.RevokedAt != nil {
		return Result{}, factory.Errorf(factory.Conflict, "The key %s was revoked: its limits do not matter any more. Make a new key.", k.Name)
	}
	if k.Limits.WithDefaults() == limits {
		return Result{Outcome: Unchanged, ID: k.ID}, nil
	}
	return Result{Outcome: Changed, ID: k.ID}, tx.SetKeyLimits(ctx, k.TenantID, k.ID, limits)
}

func differsFrom(k factory.Key, spec factory.KeySpec) factory.FieldErrors {
	const remedy = " Only the limits of a key can be changed: revoke it and make a new one."
	errs := factory.FieldErrors{}
	if k.RevokedAt != nil {
		errs.Add("name", "The key of this name was revoked. Choose another name.")
	}
	if k.Scope != spec.Scope {
		errs.Add("scope", "The key of this name has scope "+k.Scope+"."+remedy)
	}
	expires, _ := spec.Expiry()
	if (expires == nil) != (k.ExpiresAt == nil) || expires != nil && !expires.Equal(*k.ExpiresAt) {
		errs.Add("expires_at", "The key of this name has another expiry."+remedy)
	}
	return errs
}
