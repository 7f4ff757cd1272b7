package handlers

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/web/respond"
)

// silenceJSON is a silence in the API; an empty rule or deployment means all of them.
type silenceJSON struct {
	ID           string       `json:"id"`
	Rule         factory.Rule `json:"rule"`
	Deployment   string       `json:"deployment"`
	DeploymentID string       `json:"deployment_id"`
	Reason       string       `json:"reason"`
	CreatedBy    string       `json:"created_by"`
	CreatedAt    time.Time    `json:"created_at"`
	Until        time.Time    `json:"until"`
}

func jsonOfSilence(s factory.Silence, deployment string) silenceJSON {
	return silenceJSON{s.ID, s.Rule, deployment, s.DeploymentID, s.Reason, s.CreatedBy, s.CreatedAt, s.Until}
}

// ListJSON is every silence that is in force, the first to end first.
func (h *Silences) ListJSON(c echo.Context) error {
	p, err := readAlertPlaces(c.Request().Context(), h.Store, h.Now())
	if err != nil {
		return err
	}
	out := make([]silenceJSON, len(p.silences))
	for i, s := range p.silences {
		out[i] = jsonOfSilence(s, p.deployments[s.DeploymentID])
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"silences": out})
}

// silenceRequest is a silence as a program asks for it: it ends at until, or for so long
// from now.
type silenceRequest struct {
	Rule       factory.Rule `json:"rule"`
	Deployment string       `json:"deployment"` // id, name or public name
	For        string       `json:"for"`        // such as 8h
	Until      *time.Time   `json:"until"`
	Reason     string       `json:"reason"`
}

// smallBody bounds the bodies of the API that are a few hundred bytes.
const smallBody = 64 << 10

// readSmall reads a small JSON object strictly.
func readSmall(c echo.Context, v any, known string) error {
	raw, err := io.ReadAll(io.LimitReader(c.Request().Body, smallBody))
	if err != nil {
		return factory.Errorf(factory.Invalid, "The body ended early. Send it again.")
	}
	return decodeStrictly(raw, v, known)
}

// CreateJSON makes a silence.
func (h *Silences) CreateJSON(c echo.Context) error {
	var in silenceRequest
	if err := readSmall(c, &in, "a silence has rule, deployment, for or until, and reason"); err != nil {
		return err
	}
	ctx, now, errs := c.Request().Context(), h.Now(), factory.FieldErrors{}
	s := factory.Silence{Rule: in.Rule, Reason: strings.TrimSpace(in.Reason), CreatedBy: whoAsks(c)}
	switch {
	case in.Until != nil && in.For != "":
		errs.Add("until", "Write either for or until.")
	case in.Until != nil:
		s.Until = *in.Until
	default:
		s.Until = silenceFor(in.For, now, errs)
	}
	var err error
	if s.DeploymentID, err = deploymentID(ctx, h.Store, in.Deployment); err != nil {
		if factory.KindOf(err) != factory.NotFound {
			return err
		}
		errs.Add("deployment", factory.MessageOf(err))
	}
	if len(errs) == 0 {
		if errs, err = h.create(ctx, &s, now); err != nil {
			return err
		}
	}
	if len(errs) > 0 {
		return errs
	}
	names, err := h.Store.DeploymentNames(ctx)
	if err != nil {
		return err
	}
	return respond.JSON(c, http.StatusCreated, jsonOfSilence(s, names[s.DeploymentID]))
}

// EndJSON ends a silence before its time.
func (h *Silences) EndJSON(c echo.Context) error {
	if err := h.Store.EndSilence(c.Request().Context(), c.Param("id"), h.Now()); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
