package factory

import (
	"net/mail"
	"time"
)

// Tenant is a customer organisation; it has members, keys, limits and usage.
type Tenant struct {
	ID        string
	Name      string
	Title     string // shown to people; default: the name
	Limits           // of all its keys together
	CreatedAt time.Time
}

// TenantSpec is what an operator writes about a tenant.
type TenantSpec struct {
	Title string `json:"title,omitempty"`
	Limits
}

// Validate checks what can be checked without looking anything up.
func (s TenantSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if len(s.Title) > 200 {
		errs.Add("title", "Use at most 200 characters.")
	}
	s.Limits.validate(errs)
	return errs
}

// Role is what a person may do. Operators run the factory; admins and members
// belong to one tenant each time.
type Role string

const (
	Operator Role = "operator"
	Admin    Role = "admin"
	Member   Role = "member"
)

// User is a person who signs in.
type User struct {
	ID           string
	Email        string // lower case
	Name         string
	PasswordHash string
	Operator     bool
	CreatedAt    time.Time
}

// Membership is a person's role in one tenant.
type Membership struct {
	TenantID    string
	TenantName  string // joined
	TenantTitle string // joined
	UserID      string
	Email       string // joined
	Name        string // joined
	Role        Role
	CreatedAt   time.Time
}

// MemberSpec is what an operator or a tenant's admin writes about a member. In
// documents the member's name is its e-mail address.
type MemberSpec struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name,omitempty"`
	Role   Role   `json:"role"`
	// Password is the first password of a person who is new here; empty makes one.
	Password string `json:"password,omitempty"`
}

// MinPassword is the least length of a password; MaxPassword is what bcrypt takes.
const (
	MinPassword = 10
	MaxPassword = 72
)

// CheckPassword reports into errs when a password will not do.
func CheckPassword(errs FieldErrors, field, password string) {
	if len(password) < MinPassword {
		errs.Add(field, "Use at least "+itoa(MinPassword)+" characters.")
	}
	if len(password) > MaxPassword {
		errs.Add(field, "Use at most "+itoa(MaxPassword)+" bytes.")
	}
}

// CheckEmail reports into errs when an address cannot be one.
func CheckEmail(errs FieldErrors, field, email string) {
	if a, err := mail.ParseAddress(email); err != nil || a.Address != email || len(email) > 254 {
		errs.Add(field, "Write an e-mail address such as ada@example.org.")
	}
}

// Validate checks what can be checked without looking anything up.
func (s MemberSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Tenant == "" {
		errs.Add("tenant", "Say which tenant the member belongs to.")
	}
	if s.Role != Admin && s.Role != Member {
		errs.Add("role", "Choose admin or member.")
	}
	if s.Password != "" {
		CheckPassword(errs, "password", s.Password)
	}
	return errs
}
