package apiserver

import (
	"net"
	"net/http"
	"path"

	"rubato/internal/apidocs"
	"rubato/internal/app"
	"rubato/internal/auth"
	"rubato/internal/calls"
	"rubato/internal/deadletters"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/hosts"
	"rubato/internal/httpapi"
	"rubato/internal/mcp"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/spending"
	callstore "rubato/internal/store/calls"
	letterstore "rubato/internal/store/deadletters"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/fleet"
	"rubato/internal/store/history"
	hoststore "rubato/internal/store/hosts"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	noticestore "rubato/internal/store/notices"
	plannerstore "rubato/internal/store/planner"
	budgetstore "rubato/internal/store/spending"
	"rubato/internal/store/views"
	"rubato/internal/telemetry"
	"rubato/internal/web"
)

// server builds the handlers of an API server.
type server struct {
	*app.Core

	// ticket is a one-time login to the console; nil for none.
	ticket *web.Ticket
}

// listen returns the server of the API's listener. It also serves the console, MCP, the API
// reference and, if the settings enable it, the metrics.
func (s server) listen(l net.Listener, tester *request.Tester) *app.Server {
	api := s.api(tester)
	pages := s.console(api)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", pages)
	mux.Handle("/console/", pages)
	if s.Settings.API.Metrics {
		mux.Handle("GET /metrics", telemetry.Metrics(s.Registry))
	}
	apidocs.Register(mux)
	agents := mcp.Handler(mcp.Config{
		API:     api,
		Auth:    s.Keys,
		Logger:  s.Logger,
		Proxies: s.Settings.API.Proxies,
		Version: telemetry.Version(),
	})
	mux.Handle(mcp.Path, agents)
	mux.Handle(mcp.ReadOnlyPath, agents)
	mux.Handle("/", api)
	public := app.NewServer(l, withoutPathRedirects(mux, api), s.Logger)
	public.OnShutdown(api.Drain)
	public.OnShutdown(pages.Drain)
	return public
}

// withoutPathRedirects sends requests with an unclean path to the API, which answers 404 with a
// problem document. The mux would redirect them, and API clients do not expect a redirect.
func withoutPathRedirects(mux, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written := r.URL.EscapedPath()
		if clean := path.Clean(written); clean != written && clean+"/" != written {
			api.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// api returns the handler of the REST API.
func (s server) api(tester *request.Tester) *httpapi.Server {
	single := calls.NewService(callstore.New(s.DB), s.Targets())
	return httpapi.New(httpapi.Config{
		Bulk:       endpoints.NewBulk(endpointstore.NewStore(s.States), s.Targets()),
		Endpoints:  s.Endpoints(),
		Calls:      single,
		Letters:    deadletters.NewService(letterstore.New(s.DB, endpointstore.NewStore(s.States)), s.Endpoints(), single, s.Keyring),
		Feed:       views.NewFeed(s.DB),
		Runs:       history.NewRuns(s.DB),
		Stats:      views.NewStats(s.DB),
		Fleet:      fleet.New(s.DB),
		Secrets:    secrets.NewService(keystore.NewSecrets(s.DB), s.Keyring),
		Budgets:    spending.NewService(budgetstore.New(s.DB)),
		Chains:     s.Chains(),
		Hosts:      hosts.NewService(hoststore.New(s.DB), s.Settings.Egress.SharedHosts),
		Signing:    signing.NewService(keystore.NewSecrets(s.DB), s.Keyring),
		Auth:       s.Keys,
		Keys:       auth.NewKeyring(keystore.NewKeys(s.DB), s.Keys, s.Settings.API.Keys),
		Audit:      views.NewAuditLog(s.DB),
		Versions:   endpointstore.NewStore(s.States),
		Ledger:     endpointstore.NewStore(s.States),
		Notices:    notices.NewService(noticestore.NewStore(s.DB, &s.States.Rules), s.noticePermissions, s.Channels()),
		Once:       keystore.NewIdempotency(s.DB),
		Planner:    plannerstore.NewReviews(s.States, s.PlannerLimits()),
		Undo:       plannerstore.NewReviews(s.States, s.PlannerLimits()),
		Tester:     tester,
		Callbacks:  dispatch.NewCallbacks(items.NewSuspensions(s.States), s.Vault, s.Logger, s.Registry),
		Rate:       s.Settings.API.Rate,
		Origins:    s.Settings.API.Origins,
		Proxies:    s.Settings.API.Proxies,
		Tracers:    s.Traces.Tracers(),
		Ready:      s.Ready,
		Logger:     s.Logger,
		Registerer: s.Registry,
	})
}

// tester returns the service that sends test requests. The caller must close it after the last
// test.
func (s server) tester() *request.Tester {
	return request.NewTester(request.TesterConfig{
		Tests:      items.NewTests(s.States),
		Egress:     s.Outbound(),
		Allowances: s.Allowances,
		Secrets:    s.Vault,
		Chains:     s.Chains(),
		Logger:     s.Logger,
	})
}

// console returns the handler of the console, a client of the API.
func (s server) console(api http.Handler) *web.Server {
	figures := views.NewConsole(s.DB)
	return web.New(web.Config{
		API:       api,
		Auth:      s.Keys,
		Decisions: figures,
		Figures:   figures,
		Sessions:  keystore.NewConsoleSessions(s.DB),
		Ticket:    s.ticket,
		Logger:    s.Logger,
		Proxies:   s.Settings.API.Proxies,
	})
}
