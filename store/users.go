package store

import (
	"context"

	"tokenfactory/factory"
)

const userColumns = `id, email, name, password_hash, operator, created_at`

func scanUser(r row) (factory.User, error) {
	var u factory.User
	return u, r.Scan(&u.ID, &u.Email, &u.Name, &u.PasswordHash, &u.Operator, asTime(&u.CreatedAt))
}

const noUser = "There is no such person. They may have been removed."

// User reads a person by id.
func (s *Store) User(ctx context.Context, id string) (factory.User, error) {
	return one(ctx, s, s.r, "user", noUser, scanUser, `SELECT `+userColumns+` FROM users WHERE id = ?`, id)
}

// UserByEmail reads a person by their address, in lower case.
func (s *Store) UserByEmail(ctx context.Context, email string) (factory.User, error) {
	return one(ctx, s, s.r, "user", "Nobody with the e-mail address "+email+" is known.", scanUser,
		`SELECT `+userColumns+` FROM users WHERE email = ?`, email)
}

// AllUsers lists everybody by e-mail address.
func (s *Store) AllUsers(ctx context.Context) ([]factory.User, error) {
	return all(ctx, s, s.r, "user", scanUser, `SELECT `+userColumns+` FROM users ORDER BY email`)
}

// CountOperators says how many people run the factory.
func (s *Store) CountOperators(ctx context.Context) (int, error) {
	return one(ctx, s, s.r, "user", noUser, scanCount, `SELECT COUNT(*) FROM users WHERE operator = TRUE`)
}

// CreateUser adds a person.
func (s *Store) CreateUser(ctx context.Context, u factory.User) error {
	return s.exec(ctx, "user", []unique{{"email", u.Email}}, insert("users", userColumns),
		u.ID, u.Email, u.Name, u.PasswordHash, u.Operator, micros(u.CreatedAt))
}

// SavePassword replaces a person's password hash.
func (s *Store) SavePassword(ctx context.Context, userID, hash string) error {
	return s.change(ctx, "user", noUser, nil, `UPDATE users SET password_hash = ? WHERE id = ?`, hash, userID)
}

// DeleteUser removes a person with their memberships and sessions.
func (s *Store) DeleteUser(ctx context.Context, id string) error {
	return s.change(ctx, "user", noUser, nil, `DELETE FROM users WHERE id = ?`, id)
}
