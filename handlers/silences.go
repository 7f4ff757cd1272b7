package handlers

import (
	"context"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/alerts"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Silences are the operators' pages of what is kept from being delivered.
type Silences struct {
	Store *store.Store
	Now   func() time.Time
}

// List is every silence that is in force.
func (h *Silences) List(c echo.Context) error {
	p, err := readAlertPlaces(c.Request().Context(), h.Store, h.Now())
	if err != nil {
		return err
	}
	rows := make([]views.Silence, len(p.silences))
	for i, s := range p.silences {
		rows[i] = views.Silence{Silence: s, Deployment: p.deployment(s.DeploymentID)}
	}
	v := respond.View{
		Title: "Alerts", Active: layout.NavAlerts, Wide: true, Tabs: views.Tabs(paths.Silences),
		Lede: "A silence keeps alerts from being delivered. They still show up here.", Body: views.Silences(rows),
	}
	if len(rows) > 0 {
		v.Actions = []ui.Action{{Label: "New silence", Icon: "plus", Href: paths.NewSilence, Primary: true}}
	}
	return respond.Page(c, v)
}

// New is the form, filled with what the address says.
func (h *Silences) New(c echo.Context) error {
	var form views.SilenceForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	return h.page(c, form)
}

// page is the form; 422 when something is wrong with it.
func (h *Silences) page(c echo.Context, form views.SilenceForm) error {
	p, err := readAlertPlaces(c.Request().Context(), h.Store, h.Now())
	if err != nil {
		return err
	}
	v := respond.View{
		Title: "New silence", Active: layout.NavAlerts,
		Crumbs: []ui.Link{{Label: "Alerts", Href: paths.Alerts}, {Label: "Silences", Href: paths.Silences}},
		Body: views.SilenceFormView(views.SilencePage{
			SilenceForm: form, Deployments: p.options(form.Deployment, "All deployments"), ZoneName: session.Zone(c).String(),
		}),
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Page(c, v)
}

// Create makes a silence.
func (h *Silences) Create(c echo.Context) error {
	var form views.SilenceForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	now, errs := h.Now(), factory.FieldErrors{}
	s := factory.Silence{Rule: form.Rule, DeploymentID: form.Deployment, Reason: strings.TrimSpace(form.Reason), CreatedBy: whoAsks(c)}
	if form.For == views.ForUntil {
		s.Until = readMoment(&form.Until, session.Zone(c), "until", errs)
	} else {
		s.Until = silenceFor(form.For, now, errs)
	}
	if len(errs) == 0 {
		var err error
		if errs, err = h.create(c.Request().Context(), &s, now); err != nil {
			return err
		}
	}
	if form.Errors = errs; len(errs) > 0 {
		return h.page(c, form)
	}
	respond.Flash(c, "Silenced. What fires now still shows up here.")
	return respond.Redirect(c, paths.Silences)
}

// silenceFor is when a silence of a length ends that begins now.
func silenceFor(length string, now time.Time, errs factory.FieldErrors) time.Time {
	d, err := time.ParseDuration(length)
	if err != nil || d <= 0 {
		errs.Add("for", "Choose how long, such as 8h.")
		return now
	}
	return now.Add(min(d, views.LongestSilence+time.Second)) // a sum beyond all time is too long as well
}

// create keeps a silence, or says what is wrong with it. A deployment may be one that was
// deleted: its alerts may still be open.
func (h *Silences) create(ctx context.Context, s *factory.Silence, now time.Time) (factory.FieldErrors, error) {
	errs := factory.FieldErrors{}
	if s.Rule != "" && !views.KnownRule(s.Rule) {
		errs.Add("rule", "There is no such rule. Choose burn, absent, offline, drift or budget, or none for all of them.")
	}
	if s.DeploymentID != "" {
		names, err := h.Store.DeploymentNames(ctx)
		if err != nil {
			return nil, err
		}
		if names[s.DeploymentID] == "" {
			errs.Add("deployment", "There is no such deployment. Choose another, or none for all of them.")
		}
	}
	switch {
	case !s.Until.After(now):
		errs.Add("until", "Choose a time that is still to come.")
	case s.Until.Sub(now) > views.LongestSilence:
		errs.Add("until", "A silence lasts 90 days at most. Choose an earlier time.")
	}
	if len([]rune(s.Reason)) > 500 {
		errs.Add("reason", "Write at most 500 characters.")
	}
	if len(errs) > 0 {
		return errs, nil
	}
	s.ID, s.CreatedAt = factory.NewOrderedID(now), now
	return nil, h.Store.CreateSilence(ctx, *s)
}

// End ends a silence before its time.
func (h *Silences) End(c echo.Context) error {
	if err := h.Store.EndSilence(c.Request().Context(), c.Param("id"), h.Now()); err != nil {
		return err
	}
	respond.Flash(c, "Silence ended. What begins to fire is delivered again.")
	return respond.Redirect(c, paths.Silences)
}

// whoAsks is who is written down as the maker of something.
func whoAsks(c echo.Context) string {
	if email := session.Person(c).User.Email; email != "" {
		return email
	}
	return "management token"
}
