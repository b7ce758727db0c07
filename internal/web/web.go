package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"rubato/internal/auth"
	"rubato/internal/stats"
)

// Figures reads data that the API does not offer. Every method is scoped to one tenant.
type Figures interface {
	// Activity returns the tenant's runs over a stretch of time, in buckets of a step each, and its incidents.
	Activity(ctx context.Context, tenant [16]byte, over, step time.Duration) (stats.Activity, error)
	// Sparks returns the newest runs of each of some endpoints, oldest first, at most so many for each.
	Sparks(ctx context.Context, tenant [16]byte, ids [][16]byte, each int) (map[[16]byte][]stats.RunSample, error)
	// History returns the decisions about an endpoint over a period that ends now.
	History(ctx context.Context, tenant, endpoint [16]byte, over time.Duration) (stats.History, error)
	// Names returns the names of some endpoints.
	Names(ctx context.Context, tenant [16]byte, ids [][16]byte) (map[[16]byte]string, error)
	// Proof returns the check of the newest runs against the guarantees.
	Proof(ctx context.Context, tenant [16]byte) (stats.GuaranteeStats, error)
}

// Decisions reads what decisions are made of.
type Decisions interface {
	// Grounds returns the anchor and the Retry-After of the next decision about an endpoint.
	Grounds(ctx context.Context, tenant, endpoint [16]byte) (stats.DecisionBasis, error)
}

// Sessions stores sessions as pairs of hashes: of the session's secret, and of its API key.
type Sessions interface {
	// Open keeps a session for a time.
	Open(ctx context.Context, session, key [sha256.Size]byte, ttl time.Duration) error
	// Find returns the key of a session. The error is an [errs.NotFound] where there is none, or where its time is over.
	Find(ctx context.Context, session [sha256.Size]byte) (key [sha256.Size]byte, err error)
	// Close ends a session.
	Close(ctx context.Context, session [sha256.Size]byte) error
}

// Config holds the dependencies of a console.
type Config struct {
	API       http.Handler // the REST API, to which the console is a client
	Auth      *auth.Authenticator
	Decisions Decisions
	Figures   Figures
	Proxies   []netip.Prefix // trusted proxies for X-Forwarded-For; nil: none
	Sessions  Sessions
	Ticket    *Ticket // opens one session without a key; nil: none
	Logger    *slog.Logger
}

// Server is the console. It is safe for concurrent use.
type Server struct {
	api      http.Handler
	auth     *auth.Authenticator
	decided  Decisions
	figures  Figures
	proxies  []netip.Prefix
	sessions Sessions
	ticket   *Ticket
	logger   *slog.Logger
	handler  http.Handler
	watches  *auth.Quota // of live pages
	card     chaosCard
	drained  context.Context //nolint:containedctx // Ends when the server drains; see Drain.
	drain    context.CancelFunc
}

// New returns a console. It does no I/O and starts nothing.
func New(c Config) *Server {
	s := &Server{
		api: c.API, auth: c.Auth, decided: c.Decisions, figures: c.Figures, proxies: c.Proxies, sessions: c.Sessions, ticket: c.Ticket, logger: c.Logger.With("component", "web"),
		watches: auth.NewQuota(liveLimits()), card: newChaosCard(),
	}
	s.drained, s.drain = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	for pattern, f := range assets() {
		mux.Handle(pattern, f)
	}
	for pattern, handle := range s.public() {
		mux.Handle(pattern, s.wrap(readForm(handle)))
	}
	for pattern, handle := range pages() {
		handle = readForm(handle)
		if forWriters(pattern) {
			handle = permitted(handle)
		}
		mux.Handle(pattern, s.wrap(s.signedIn(handle)))
	}
	mux.Handle("/console/", s.wrap(s.signedIn((*visit).elsewhere)))
	s.handler = http.NewCrossOriginProtection().Handler(mux)
	return s
}

// handle answers a request. An error is shown as a page, or as a notice where a part of a page was asked for.
type handle func(v *visit) error

// elsewhere answers where there is no page: an address that ends with a slash leads to the one without.
func (v *visit) elsewhere() error {
	path := strings.TrimRight(v.r.URL.Path, "/")
	if path == v.r.URL.Path || v.r.Method != http.MethodGet {
		return notFound("there is no such page")
	}
	to := url.URL{Path: path, RawQuery: v.r.URL.RawQuery}
	return v.seeOther(to.String())
}

// public returns the routes that need no session.
func (s *Server) public() map[string]handle {
	return map[string]handle{
		"GET /console/signin":  (*visit).signInPage,
		"POST /console/signin": (*visit).signIn,
		"GET /console/enter":   (*visit).enter,
	}
}

// pages returns the routes that need a session.
func pages() map[string]handle {
	return map[string]handle{
		"GET /{$}":                                         (*visit).overview,
		"GET /console/{$}":                                 (*visit).home,
		"POST /console/signout":                            (*visit).signOut,
		"GET /console/overview/live":                       (*visit).overviewLive,
		"GET /console/overview/data":                       (*visit).overviewData,
		"GET /console/endpoints":                           (*visit).endpointList,
		"POST /console/endpoints":                          (*visit).create,
		"POST /console/endpoints/bulk":                     (*visit).bulk,
		"POST /console/endpoints/bulk/ask":                 (*visit).askBulk,
		"POST /console/endpoints/bulk/undo":                (*visit).undoBulk,
		"GET /console/endpoints/new":                       (*visit).registerForm,
		"POST /console/draft":                              (*visit).draft,
		"POST /console/draft/try":                          (*visit).try,
		"GET /console/endpoints/{id}":                      (*visit).endpoint,
		"GET /console/endpoints/{id}/live":                 (*visit).endpointLive,
		"GET /console/endpoints/{id}/data":                 (*visit).tempoData,
		"GET /console/endpoints/{id}/edit":                 (*visit).editForm,
		"POST /console/endpoints/{id}":                     (*visit).edit,
		"GET /console/endpoints/{id}/do/{action}":          (*visit).confirm,
		"POST /console/endpoints/{id}/do/{action}":         (*visit).act,
		"POST /console/endpoints/{id}/what/{action}":       (*visit).effect,
		"GET /console/runs":                                (*visit).runList,
		"GET /console/runs/live":                           (*visit).runListLive,
		"GET /console/runs/{id}":                           (*visit).run,
		"POST /console/runs/{id}/cancel":                   (*visit).cancelRun,
		"GET /console/workers":                             (*visit).workers,
		"GET /console/workers/live":                        (*visit).workersLive,
		"GET /console/guarantees":                          (*visit).guarantees,
		"GET /console/guarantees/live":                     (*visit).guaranteesLive,
		"GET /console/notices":                             (*visit).notices,
		"POST /console/notices/rules":                      (*visit).putRule,
		"GET /console/notices/rules/new":                   (*visit).newRule,
		"GET /console/notices/rules/{name}/edit":           (*visit).editRule,
		"GET /console/notices/rules/{name}/delete":         (*visit).askDeleteRule,
		"POST /console/notices/rules/{name}/test":          (*visit).testRule,
		"POST /console/notices/rules/{name}/delete":        (*visit).deleteRule,
		"GET /console/notices/windows/new":                 (*visit).newWindow,
		"POST /console/notices/windows":                    (*visit).putWindow,
		"POST /console/notices/windows/what":               (*visit).windowWhat,
		"GET /console/notices/windows/{name}/edit":         (*visit).editWindow,
		"GET /console/notices/windows/{name}/{verb}":       (*visit).askWindow,
		"POST /console/notices/windows/{name}/{verb}":      (*visit).endWindow,
		"POST /console/notices/{id}/retry":                 (*visit).retryNotice,
		"GET /console/planner":                             (*visit).planner,
		"GET /console/planner/sessions/{id}":               (*visit).session,
		"GET /console/planner/sessions/{id}/undo":          (*visit).confirmUndo,
		"POST /console/planner/sessions/{id}/undo":         (*visit).undo,
		"GET /console/planner/suggestions/{id}/{verdict}":  (*visit).confirmReview,
		"GET /console/planner/tempo/{id}/{verdict}":        (*visit).suggestedTempo,
		"POST /console/planner/suggestions/{id}/{verdict}": (*visit).decide,
	}
}

// forWriters reports whether a page needs the scope write. Every form does, because it changes something, sends a request or forecasts what a
// form would change. Signing out is for every session.
func forWriters(pattern string) bool {
	return strings.HasPrefix(pattern, http.MethodPost+" ") && pattern != "POST /console/signout"
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	s.handler.ServeHTTP(w, r)
}

// Drain ends every live page: a server that stops cannot wait for them. They come back to whichever server answers next.
func (s *Server) Drain() { s.drain() }

// policy lets pages run the console's own scripts and ask its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// protect sets what every answer carries.
func protect(h http.Header) {
	h.Set("Cache-Control", "no-store") // Pages hold a tenant's data.
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
