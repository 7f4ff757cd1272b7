package handlers

import (
	"context"
	"errors"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
)

// Apply creates and changes nouns from what somebody wrote about them. Forms and
// documents both go through it, so that there is one set of rules. Each method
// belongs inside a transaction: it looks everything up first, returns
// factory.FieldErrors without having written anything, and is idempotent.
type Apply struct {
	Now func() time.Time
}

// What applying a spec did.
const (
	Created   = "created"
	Changed   = "changed"
	Unchanged = "unchanged"
)

// Result says what applying a spec did, and carries the secrets that it made:
// they are kept as hashes only, so this is the one chance to read them.
type Result struct {
	Outcome string
	ID      string
	Secrets map[string]string
}

// Names of the secrets in a Result.
const (
	SecretJoinToken = "join_token"
	SecretKey       = "key"
	SecretPassword  = "password"
)

func (a *Apply) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return factory.Now()
}

// found turns a lookup into whether the thing exists; other failures stay errors.
func found(err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case factory.KindOf(err) == factory.NotFound:
		return false, nil
	}
	return false, err
}

// lookUp finds what a field names, and reports at the field when there is no such
// thing. An empty name is left to the noun's own Validate.
func lookUp[T any](ctx context.Context, errs factory.FieldErrors, field, noun, name string, read func(context.Context, string) (T, error)) (T, error) {
	var zero T
	if name == "" {
		return zero, nil
	}
	thing, err := read(ctx, name)
	ok, err := found(err)
	if err != nil {
		return zero, err
	}
	if !ok {
		errs.Add(field, "There is no "+noun+" named “"+name+"”. Create it first, or choose another.")
		return zero, nil
	}
	return thing, nil
}

// checkNew reports at the name when a form that creates would change something
// that exists already.
func checkNew[T any](ctx context.Context, errs factory.FieldErrors, noun, name string, read func(context.Context, string) (T, error)) error {
	if name == "" {
		return nil
	}
	_, err := read(ctx, name)
	taken, err := found(err)
	if taken {
		article := "A "
		if noun == "endpoint" || noun == "alias" {
			article = "An "
		}
		errs.Add("name", article+noun+" named “"+name+"” exists already. Choose another name.")
	}
	return err
}

// inTx runs one form's work in a transaction and sorts its failure: what is wrong
// with fields comes back as such, everything else as an error.
func inTx(ctx context.Context, s *store.Store, work func(tx *store.Store) error) (factory.FieldErrors, error) {
	return onlyFields(s.InTx(ctx, work))
}

// onlyFields takes the field errors out of an error; another error stays one.
func onlyFields(err error) (factory.FieldErrors, error) {
	var errs factory.FieldErrors
	if errors.As(err, &errs) {
		return errs, nil
	}
	return nil, err
}
