package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"tokenfactory/handlers"
	"tokenfactory/static"
	"tokenfactory/views/layout"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

// routes is the one map of addresses. Middleware sits on groups, never on the root:
// what is mounted bare must stay bare.
func (s Site) routes(e *echo.Echo, assets layout.Assets, sessions *session.Sessions) {
	s.bare(e)

	base := []echo.MiddlewareFunc{requestID(), s.dressing(assets), accessLog(s.Log), recovered(s.Log)}
	console := e.Group("", append(base,
		middleware.BodyLimit(formLimit), csrf(s.secure()), session.Identify(sessions, s.Store))...)
	api := e.Group(paths.API, append(base,
		middleware.BodyLimit(documentLimit), csrf(s.secure()), session.Identify(sessions, s.Store), session.IdentifyProgram(s.Store, s.Now))...)

	s.people(console, sessions)
	s.operators(console)
	s.tenants(console)
	s.programs(api)
	if s.Metrics != nil {
		api := e.Group("", append(base, session.IdentifyProgram(s.Store, s.Now))...)
		api.GET(paths.Scrape, echo.WrapHandler(s.Metrics), management)
	}
}

// bare mounts what is not the console.
func (s Site) bare(e *echo.Echo) {
	if s.Gateway != nil {
		e.Any(paths.Gateway, echo.WrapHandler(s.Gateway))
		e.Any(paths.Gateway+"/*", echo.WrapHandler(s.Gateway))
	}
	if s.Agents != nil {
		e.Any(paths.Agents, echo.WrapHandler(s.Agents))
		e.Any(paths.Agents+"/*", echo.WrapHandler(s.Agents))
	}
	files := echo.WrapHandler(static.Handler())
	e.GET(paths.Static+"/*", files)
	e.HEAD(paths.Static+"/*", files)
	e.GET(paths.Health, func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
}

// people is what anybody reaches, and what belongs to one person.
func (s Site) people(g *echo.Group, sessions *session.Sessions) {
	throttle := &session.Throttle{Attempts: s.Store, Now: s.Now}
	signIn := &handlers.SignIn{Store: s.Store, Sessions: sessions, Throttle: throttle}
	g.GET(paths.SignIn, signIn.Show)
	g.POST(paths.SignIn, signIn.Create)
	g.POST(paths.SignOut, signIn.Remove)
	g.POST(paths.SignOutAll, signIn.RemoveAll, signedIn)

	setup := &handlers.Setup{Store: s.Store, Sessions: sessions, Now: s.Now}
	g.GET(paths.Setup, setup.Show)
	g.POST(paths.Setup, setup.Create)

	account := &handlers.Account{Store: s.Store, Sessions: sessions, Throttle: throttle}
	g.GET(paths.Account, account.Show, signedIn)
	g.POST(paths.AccountPassword, account.SavePassword, signedIn)
	g.GET(paths.AccountPassword, account.ShowAgain, signedIn)
	g.POST(paths.Theme, account.Theme)

	home := &handlers.Home{Store: s.Store, Now: s.Now}
	g.GET(paths.Home, home.Show, signedIn)
}

// operators is what operators see and change.
func (s Site) operators(g *echo.Group) {
	apply := &handlers.Apply{Now: s.Now}

	clusters := &handlers.Clusters{Store: s.Store, Apply: apply, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.Clusters, clusters.List, operator)
	g.GET(paths.NewCluster, clusters.New, operator)
	g.POST(paths.Clusters, clusters.Create, operator)
	g.GET(paths.Cluster(":id"), clusters.Show, operator)
	g.GET(paths.EditCluster(":id"), clusters.Edit, operator)
	g.POST(paths.Cluster(":id"), clusters.Update, operator)
	g.POST(paths.RemoveCluster(":id"), clusters.Remove, operator)
	g.POST(paths.ClusterTokens(":id"), clusters.Register, operator)
	g.GET(paths.ClusterToken(":id", ":token"), clusters.Registration, operator)
	g.POST(paths.RemoveToken(":id", ":token"), clusters.RevokeToken, operator)
	g.GET(paths.Node(":id", ":node"), clusters.Node, operator)
	g.POST(paths.RemoveNode(":id", ":node"), clusters.RemoveNode, operator)

	endpoints := &handlers.Endpoints{Store: s.Store, Apply: apply, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.Endpoints, endpoints.List, operator)
	g.GET(paths.NewEndpoint, endpoints.New, operator)
	g.POST(paths.Endpoints, endpoints.Create, operator)
	g.GET(paths.Endpoint(":id"), endpoints.Show, operator)
	g.GET(paths.EditEndpoint(":id"), endpoints.Edit, operator)
	g.POST(paths.Endpoint(":id"), endpoints.Update, operator)
	g.POST(paths.RemoveEndpoint(":id"), endpoints.Remove, operator)

	providers := &handlers.Providers{Store: s.Store, Apply: apply, Now: s.Now}
	g.GET(paths.Providers, providers.List, operator)
	g.GET(paths.NewProvider, providers.New, operator)
	g.POST(paths.Providers, providers.Create, operator)
	g.GET(paths.Provider(":id"), providers.Show, operator)
	g.GET(paths.EditProvider(":id"), providers.Edit, operator)
	g.POST(paths.Provider(":id"), providers.Update, operator)
	g.POST(paths.RemoveProvider(":id"), providers.Remove, operator)

	models := &handlers.Models{Store: s.Store, Apply: apply, Poke: s.Poke, Now: s.Now}
	g.GET(paths.Models, models.List, operator)
	g.GET(paths.NewModel, models.New, operator)
	g.POST(paths.Models, models.Create, operator)
	g.GET(paths.Model(":id"), models.Show, operator)
	g.GET(paths.EditModel(":id"), models.Edit, operator)
	g.POST(paths.Model(":id"), models.Update, operator)
	g.POST(paths.RemoveModel(":id"), models.Remove, operator)

	s.deployments(g, apply)
	s.customers(g, apply)
	s.watching(g, apply)
}

// deployments is what operators see and change of deployments.
func (s Site) deployments(g *echo.Group, apply *handlers.Apply) {
	deployments := &handlers.Deployments{Store: s.Store, Apply: apply, Uses: s.Limits, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.Deployments, deployments.List, operator)
	g.GET(paths.NewDeployment, deployments.New, operator)
	g.POST(paths.Deployments, deployments.Create, operator)
	g.GET(paths.Deployment(":id"), deployments.Show, operator)
	g.GET(paths.DeploymentReplicas(":id"), deployments.Replicas, operator)
	g.GET(paths.DeploymentSettings(":id"), deployments.Settings, operator)
	g.POST(paths.Deployment(":id"), deployments.Update, operator)
	g.POST(paths.StopDeployment(":id"), deployments.Stop, operator)
	g.POST(paths.StartDeployment(":id"), deployments.Start, operator)
	g.POST(paths.RestartDeployment(":id"), deployments.Restart, operator)
	g.POST(paths.SleepDeployment(":id"), deployments.Sleep, operator)
	g.POST(paths.WakeDeployment(":id"), deployments.Wake, operator)
	g.POST(paths.RemoveDeployment(":id"), deployments.Remove, operator)

	aliases := &handlers.Aliases{Store: s.Store, Apply: apply, Poke: s.Poke, Now: s.Now}
	g.GET(paths.Aliases, aliases.List, operator)
	g.GET(paths.NewAlias, aliases.New, operator)
	g.POST(paths.Aliases, aliases.Create, operator)
	g.GET(paths.Alias(":id"), aliases.Show, operator)
	g.GET(paths.EditAlias(":id"), aliases.Edit, operator)
	g.POST(paths.Alias(":id"), aliases.Update, operator)
	g.POST(paths.RemoveAlias(":id"), aliases.Remove, operator)

	metrics := &handlers.Metrics{Store: s.Store, Now: s.Now, PublicURL: s.PublicURL, Events: s.Store}
	g.GET(paths.DeploymentMetrics(":id"), metrics.Show, operator)
	g.GET(paths.DeploymentMetricsCSV(":id"), metrics.CSV, operator)
}

// customers is what operators see and change of tenants.
func (s Site) customers(g *echo.Group, apply *handlers.Apply) {
	tenants := &handlers.Tenants{Store: s.Store, Apply: apply, Uses: s.Limits, Poke: s.Poke, Now: s.Now}
	g.GET(paths.Tenants, tenants.List, operator)
	g.GET(paths.NewTenant, tenants.New, operator)
	g.POST(paths.Tenants, tenants.Create, operator)
	g.GET(paths.Tenant(":id"), tenants.Show, operator)
	g.GET(paths.EditTenant(":id"), tenants.Edit, operator)
	g.POST(paths.Tenant(":id"), tenants.Update, operator)
	g.POST(paths.RemoveTenant(":id"), tenants.Remove, operator)
	g.GET(paths.Members(":id"), tenants.ShowAgain, operator)
	g.POST(paths.Members(":id"), tenants.AddMember, operator)
	g.POST(paths.SaveMember(":id", ":user"), tenants.SaveMember, operator)
	g.POST(paths.RemoveMember(":id", ":user"), tenants.RemoveMember, operator)
	g.GET(paths.Keys(":id"), tenants.ShowAgain, operator)
	g.POST(paths.Keys(":id"), tenants.CreateKey, operator)
	g.GET(paths.Key(":id", ":key"), tenants.ShowKey, operator)
	g.POST(paths.Key(":id", ":key"), tenants.SaveKeyLimits, operator)
	g.POST(paths.RevokeKey(":id", ":key"), tenants.RevokeKey, operator)

	usage := &handlers.Usage{Store: s.Store, Now: s.Now, Spool: s.Spool}
	g.GET(paths.Usage, usage.Show, operator)
	g.GET(paths.UsageCSV, usage.CSV, operator)
	g.GET(paths.Requests, usage.Requests, operator)
}

// watching is what operators watch: what was promised, and what is wrong.
func (s Site) watching(g *echo.Group, apply *handlers.Apply) {
	objectives := &handlers.Objectives{Store: s.Store, Now: s.Now}
	g.GET(paths.Objectives, objectives.List, operator)
	g.GET(paths.ObjectivesCSV, objectives.CSV, operator)

	alerts := &handlers.Alerts{Store: s.Store, Now: s.Now}
	g.GET(paths.Alerts, alerts.List, operator)
	g.GET(paths.Alert(":id"), alerts.Show, operator)

	silences := &handlers.Silences{Store: s.Store, Now: s.Now}
	g.GET(paths.Silences, silences.List, operator)
	g.GET(paths.NewSilence, silences.New, operator)
	g.POST(paths.Silences, silences.Create, operator)
	g.POST(paths.EndSilence(":id"), silences.End, operator)

	channels := &handlers.Channels{Store: s.Store, Deliver: s.Deliver, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.Channels, channels.List, operator)
	g.GET(paths.NewChannel, channels.New, operator)
	g.POST(paths.Channels, channels.Create, operator)
	g.GET(paths.Channel(":id"), channels.Show, operator)
	g.GET(paths.EditChannel(":id"), channels.Edit, operator)
	g.POST(paths.Channel(":id"), channels.Update, operator)
	g.POST(paths.SwitchChannel(":id"), channels.Switch, operator)
	g.POST(paths.TestChannel(":id"), channels.Test, operator)
	g.POST(paths.RemoveChannel(":id"), channels.Remove, operator)
}

// tenants is what the members of one tenant see and change.
func (s Site) tenants(g *echo.Group) {
	apply := &handlers.Apply{Now: s.Now}

	models := &handlers.SharedModels{Store: s.Store, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.Own(":tenant"), models.Home, member)
	g.GET(paths.OwnModels(":tenant"), models.List, member)

	metrics := &handlers.Metrics{Store: s.Store, Now: s.Now, PublicURL: s.PublicURL}
	g.GET(paths.OwnMetrics(":tenant", ":deployment"), metrics.Own, member)
	g.GET(paths.OwnMetricsCSV(":tenant", ":deployment"), metrics.OwnCSV, member)

	keys := &handlers.Keys{Store: s.Store, Apply: apply, Uses: s.Limits, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET(paths.OwnKeys(":tenant"), keys.List, member)
	g.POST(paths.OwnKeys(":tenant"), keys.Create, member)
	g.GET(paths.OwnKey(":tenant", ":key"), keys.Show, member)
	g.POST(paths.OwnKey(":tenant", ":key"), keys.SaveLimits, member)
	g.POST(paths.OwnRevokeKey(":tenant", ":key"), keys.Revoke, member)

	members := &handlers.Members{Store: s.Store, Apply: apply, Now: s.Now}
	g.GET(paths.OwnMembers(":tenant"), members.List, member)
	g.POST(paths.OwnMembers(":tenant"), members.Add, member)
	g.POST(paths.OwnSaveMember(":tenant", ":user"), members.Save, member)
	g.POST(paths.OwnRemoveMember(":tenant", ":user"), members.Remove, member)

	usage := &handlers.Usage{Store: s.Store, Now: s.Now}
	g.GET(paths.OwnUsage(":tenant"), usage.Own, member)
	g.GET(paths.OwnUsageCSV(":tenant"), usage.OwnCSV, member)
	g.GET(paths.OwnRequests(":tenant"), usage.OwnRequests, member)
}

// programs is the JSON API; its group begins at paths.API.
func (s Site) programs(g *echo.Group) {
	apply := &handlers.Apply{Now: s.Now}
	documents := &handlers.Documents{Store: s.Store, Apply: apply, Poke: s.Poke}
	g.POST("/apply", documents.Post, management)

	clusters := &handlers.Clusters{Store: s.Store, Apply: apply, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET("/clusters", clusters.ListJSON, management)

	deployments := &handlers.Deployments{Store: s.Store, Apply: apply, Poke: s.Poke, PublicURL: s.PublicURL, Now: s.Now}
	g.GET("/deployments", deployments.ListJSON, known)
	g.GET("/deployments/:ref", deployments.ShowJSON, known)

	aliases := &handlers.Aliases{Store: s.Store, Apply: apply, Poke: s.Poke, Now: s.Now}
	g.GET("/aliases", aliases.ListJSON, known)

	keys := &handlers.KeysAPI{Store: s.Store, Apply: apply, Uses: s.Limits, Poke: s.Poke, Now: s.Now}
	g.GET("/keys", keys.List, known)
	g.GET("/keys/:key", keys.Show, known)
	g.GET("/limits", keys.Tenant, known)
	g.PUT("/keys/:key/limits", keys.SaveLimits, management)

	metrics := &handlers.Metrics{Store: s.Store, Now: s.Now, PublicURL: s.PublicURL}
	g.GET("/deployments/:name/metrics", metrics.JSON, known)
	g.GET("/deployments/:name/metrics.csv", metrics.APICSV, known)

	objectives := &handlers.Objectives{Store: s.Store, Now: s.Now}
	g.GET("/objectives", objectives.JSON, management)
	g.GET("/objectives.csv", objectives.CSV, management)

	alerts := &handlers.Alerts{Store: s.Store, Now: s.Now}
	g.GET("/alerts", alerts.ListJSON, management)
	g.GET("/alerts.csv", alerts.CSV, management)
	g.GET("/alerts/:id", alerts.ShowJSON, management)

	silences := &handlers.Silences{Store: s.Store, Now: s.Now}
	g.GET("/alerts/silences", silences.ListJSON, management)
	g.POST("/alerts/silences", silences.CreateJSON, management)
	g.DELETE("/alerts/silences/:id", silences.EndJSON, management)

	channels := &handlers.Channels{Store: s.Store, Deliver: s.Deliver, PublicURL: s.PublicURL, Now: s.Now}
	g.GET("/channels", channels.ListJSON, management)
	g.POST("/channels", channels.CreateJSON, management)

	usage := &handlers.Usage{Store: s.Store, Now: s.Now}
	g.GET("/usage", usage.SumsJSON, known)
	g.GET("/requests", usage.RequestsJSON, known)
}
