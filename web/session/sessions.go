package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/sessions"

	"tokenfactory/factory"
)

// Row is a session as the database keeps it, under the hash of its cookie.
type Row struct {
	IDHash    string
	UserID    string
	Data      []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Rows is what sessions need of the store.
type Rows interface {
	Session(ctx context.Context, idHash string) (Row, error)
	SaveSession(ctx context.Context, row Row) error
	DeleteSession(ctx context.Context, idHash string) error
}

// A session ends after two weeks without a visit. It is renewed at most once an
// hour, so that reading pages does not write.
const (
	life       = 14 * 24 * time.Hour
	renewAfter = time.Hour
	cookieName = "session"

	valueUser     = "user"
	valuePassword = "password" // fingerprint of the password that opened the session
	valueID       = "id"       // of the cookie; never in the row
	valueCreated  = "created"
	valueRenewed  = "renewed"
)

// data is what a row keeps besides its columns.
type data struct {
	Password string `json:"password"`
	Agent    string `json:"agent"`
}

// Sessions is a sessions.Store over the database. The cookie is a random id and
// nothing else, so a session can be ended here whoever holds the cookie.
type Sessions struct {
	Rows Rows
	Now  func() time.Time
	// Secure is set when the console is reached over https, also behind a proxy.
	Secure bool
}

var _ sessions.Store = (*Sessions)(nil)

// Get returns the request's session, reading it once a request.
func (s *Sessions) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New reads the session that the request's cookie names. An unknown or expired one
// is a new, empty session, not an error.
func (s *Sessions) New(r *http.Request, name string) (*sessions.Session, error) {
	session := sessions.NewSession(s, name)
	session.IsNew = true
	session.Options = s.options(r)
	cookie, err := r.Cookie(name)
	if err != nil || cookie.Value == "" {
		return session, nil
	}
	row, err := s.Rows.Session(r.Context(), factory.HashSecret(cookie.Value))
	if factory.KindOf(err) == factory.NotFound {
		return session, nil
	}
	if err != nil {
		return session, err
	}
	if !s.Now().Before(row.ExpiresAt) {
		return session, nil
	}
	session.IsNew = false
	session.ID = row.IDHash
	session.Values[valueID] = cookie.Value
	session.Values[valueUser] = row.UserID
	session.Values[valueRenewed] = row.ExpiresAt.Add(-life)
	session.Values[valueCreated] = row.CreatedAt
	var d data
	if err := json.Unmarshal(row.Data, &d); err != nil {
		return session, fmt.Errorf("read session: %w", err)
	}
	session.Values[valuePassword] = d.Password
	return session, nil
}

// Save writes the session and its cookie. A session without a user, or with a
// negative age, is deleted.
func (s *Sessions) Save(r *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	user, _ := session.Values[valueUser].(string)
	if user == "" || session.Options.MaxAge < 0 {
		if session.ID != "" {
			if err := s.Rows.DeleteSession(r.Context(), session.ID); err != nil && factory.KindOf(err) != factory.NotFound {
				return err
			}
		}
		options := *session.Options
		options.MaxAge = -1
		http.SetCookie(w, sessions.NewCookie(session.Name(), "", &options))
		return nil
	}
	id, _ := session.Values[valueID].(string)
	if id == "" {
		id = strings.ToLower(rand.Text() + rand.Text())
		session.Values[valueID] = id
		session.Values[valueCreated] = s.Now()
	}
	created, _ := session.Values[valueCreated].(time.Time)
	password, _ := session.Values[valuePassword].(string)
	kept, err := json.Marshal(data{Password: password, Agent: firstRunes(r.UserAgent(), 200)})
	if err != nil {
		return err
	}
	session.ID = factory.HashSecret(id)
	row := Row{IDHash: session.ID, UserID: user, Data: kept, CreatedAt: created, ExpiresAt: s.Now().Add(life)}
	if err := s.Rows.SaveSession(r.Context(), row); err != nil {
		return err
	}
	session.IsNew = false
	http.SetCookie(w, sessions.NewCookie(session.Name(), id, session.Options))
	return nil
}

func (s *Sessions) options(r *http.Request) *sessions.Options {
	return &sessions.Options{
		Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true,
		Secure: s.Secure || r.TLS != nil, SameSite: http.SameSiteLaxMode,
	}
}

func firstRunes(s string, n int) string {
	r := []rune(strings.ToValidUTF8(s, ""))
	return string(r[:min(n, len(r))])
}

// SignIn begins a session for a person. The one that the browser had before ends:
// an id that somebody planted there must not become a signed-in one.
func (s *Sessions) SignIn(r *http.Request, w http.ResponseWriter, user factory.User) error {
	old, err := s.Get(r, cookieName)
	if err != nil {
		return err
	}
	if old.ID != "" {
		if err := s.Rows.DeleteSession(r.Context(), old.ID); err != nil && factory.KindOf(err) != factory.NotFound {
			return err
		}
	}
	fresh := sessions.NewSession(s, cookieName)
	fresh.Options = s.options(r)
	fresh.Values[valueUser] = user.ID
	fresh.Values[valuePassword] = fingerprint(user)
	return s.Save(r, w, fresh)
}

// SignOut ends the request's session.
func (s *Sessions) SignOut(r *http.Request, w http.ResponseWriter) error {
	session, err := s.Get(r, cookieName)
	if err != nil {
		return err
	}
	session.Options.MaxAge = -1
	return s.Save(r, w, session)
}

// fingerprint changes with the password. A session carries it, so that a new
// password ends all older sessions even when one is being renewed at that moment.
func fingerprint(u factory.User) string { return factory.HashSecret(u.PasswordHash)[:32] }

// person finds the user of the request's session; the second result is false when
// nobody has signed in.
func (s *Sessions) person(r *http.Request, people People) (user factory.User, session *sessions.Session, ok bool, err error) {
	session, err = s.Get(r, cookieName)
	if err != nil || session.IsNew {
		return factory.User{}, session, false, err
	}
	userID, _ := session.Values[valueUser].(string)
	if userID == "" {
		return factory.User{}, session, false, nil
	}
	user, err = people.User(r.Context(), userID)
	if factory.KindOf(err) == factory.NotFound {
		return factory.User{}, session, false, nil
	}
	return user, session, err == nil && session.Values[valuePassword] == fingerprint(user), err
}

// renew keeps a session that is in use alive.
func (s *Sessions) renew(r *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	renewed, _ := session.Values[valueRenewed].(time.Time)
	if s.Now().Sub(renewed) <= renewAfter {
		return nil
	}
	return s.Save(r, w, session)
}
