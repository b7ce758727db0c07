package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"rubato/internal/auth"
	"rubato/internal/stats"
)

// StatsReader reads data that the API does not offer. Every method is scoped to one tenant.
type StatsReader interface {
	// Activity returns the tenant's runs of the newest period, in buckets of one step, and its
	// incidents.
	Activity(ctx context.Context, tenant [16]byte, over, step time.Duration) (stats.Activity, error)
	// Sparks returns the newest runs of some endpoints, oldest first. each is the maximum for one
	// endpoint.
	Sparks(ctx context.Context, tenant [16]byte, ids [][16]byte, each int) (map[[16]byte][]stats.RunSample, error)
	// History returns the decisions about an endpoint over a period that ends now.
	History(ctx context.Context, tenant, endpoint [16]byte, over time.Duration) (stats.History, error)
	// Names returns the names of some endpoints.
	Names(ctx context.Context, tenant [16]byte, ids [][16]byte) (map[[16]byte]string, error)
	// Proof returns the check of the newest runs against the guarantees.
	Proof(ctx context.Context, tenant [16]byte) (stats.GuaranteeStats, error)
}

// Decisions reads what decisions are made of, and what they saved.
type Decisions interface {
	// DecisionBasis returns the anchor and the Retry-After of the next decision about an endpoint.
	DecisionBasis(ctx context.Context, tenant, endpoint [16]byte) (stats.DecisionBasis, error)
	// Savings compares the newest runs with those of their baselines.
	Savings(ctx context.Context, tenant [16]byte) (stats.Savings, error)
}

// Sessions stores sessions as pairs of hashes: of the session's secret, and of its API key.
type Sessions interface {
	// Open keeps a session for a time.
	Open(ctx context.Context, session, key [sha256.Size]byte, ttl time.Duration) error
	// Find returns the key of a session. The error is an [errs.NotFound] if it does not exist or
	// has expired.
	Find(ctx context.Context, session [sha256.Size]byte) (key [sha256.Size]byte, err error)
	// Close ends a session.
	Close(ctx context.Context, session [sha256.Size]byte) error
}

// Config holds the dependencies of a console.
type Config struct {
	API       http.Handler // the REST API, to which the console is a client
	Auth      *auth.Authenticator
	Decisions Decisions
	Figures   StatsReader
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
	figures  StatsReader
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
		api:      c.API,
		auth:     c.Auth,
		decided:  c.Decisions,
		figures:  c.Figures,
		proxies:  c.Proxies,
		sessions: c.Sessions,
		ticket:   c.Ticket,
		logger:   c.Logger.With("component", "web"),
		watches:  auth.NewQuota(liveLimits()),
		card:     newChaosCard(),
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
	mux.Handle("/console/", s.wrap(s.signedIn((*pageRequest).elsewhere)))
	s.handler = http.NewCrossOriginProtection().Handler(mux)
	return s
}

// handle serves a request. An error is shown as a page, or as a notice if a fragment of a page was
// requested.
type handle func(v *pageRequest) error

// elsewhere responds to unknown paths. A path with a trailing slash redirects to the one without
// it.
func (v *pageRequest) elsewhere() error {
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
		"GET /console/signin":  (*pageRequest).signInPage,
		"POST /console/signin": (*pageRequest).signIn,
		"GET /console/enter":   (*pageRequest).enter,
	}
}

// pages returns the routes that need a session.
func pages() map[string]handle {
	listed := map[string]handle{
		"GET /{$}":                                         (*pageRequest).overview,
		"GET /console/{$}":                                 (*pageRequest).home,
		"POST /console/signout":                            (*pageRequest).signOut,
		"GET /console/overview/live":                       (*pageRequest).overviewLive,
		"GET /console/overview/data":                       (*pageRequest).overviewData,
		"GET /console/endpoints":                           (*pageRequest).endpointList,
		"POST /console/endpoints":                          (*pageRequest).create,
		"POST /console/endpoints/bulk":                     (*pageRequest).bulk,
		"POST /console/endpoints/bulk/ask":                 (*pageRequest).askBulk,
		"POST /console/endpoints/bulk/undo":                (*pageRequest).undoBulk,
		"GET /console/endpoints/new":                       (*pageRequest).registerForm,
		"POST /console/draft":                              (*pageRequest).draft,
		"POST /console/draft/try":                          (*pageRequest).try,
		"GET /console/endpoints/{id}":                      (*pageRequest).endpoint,
		"GET /console/endpoints/{id}/live":                 (*pageRequest).endpointLive,
		"GET /console/endpoints/{id}/data":                 (*pageRequest).tempoData,
		"GET /console/endpoints/{id}/pace":                 (*pageRequest).pace,
		"GET /console/endpoints/{id}/routability":          (*pageRequest).routability,
		"GET /console/endpoints/{id}/shadow":               (*pageRequest).shadow,
		"GET /console/endpoints/{id}/edit":                 (*pageRequest).editForm,
		"POST /console/endpoints/{id}":                     (*pageRequest).edit,
		"GET /console/endpoints/{id}/do/{action}":          (*pageRequest).confirm,
		"POST /console/endpoints/{id}/do/{action}":         (*pageRequest).act,
		"POST /console/endpoints/{id}/noise":               (*pageRequest).judgeNoise,
		"POST /console/endpoints/{id}/what/{action}":       (*pageRequest).effect,
		"GET /console/runs":                                (*pageRequest).runList,
		"GET /console/runs/live":                           (*pageRequest).runListLive,
		"GET /console/runs/{id}":                           (*pageRequest).run,
		"POST /console/runs/{id}/cancel":                   (*pageRequest).cancelRun,
		"POST /console/runs/{id}/rerun":                    (*pageRequest).rerun,
		"GET /console/workers":                             (*pageRequest).workers,
		"GET /console/workers/live":                        (*pageRequest).workersLive,
		"POST /console/workers/{id}/drain":                 (*pageRequest).drainWorker,
		"POST /console/workers/{id}/resume":                (*pageRequest).resumeWorker,
		"GET /console/hosts":                               (*pageRequest).hosts,
		"GET /console/hosts/live":                          (*pageRequest).hostsLive,
		"GET /console/hosts/new":                           (*pageRequest).newHost,
		"POST /console/hosts":                              (*pageRequest).putHost,
		"GET /console/hosts/{host}/edit":                   (*pageRequest).editHost,
		"POST /console/hosts/{host}/reset":                 (*pageRequest).resetHost,
		"GET /console/dead-letters":                        (*pageRequest).letters,
		"GET /console/dead-letters/{id}":                   (*pageRequest).letter,
		"POST /console/dead-letters/replay":                (*pageRequest).replayLetters,
		"POST /console/dead-letters/{id}/replay":           (*pageRequest).replayLetter,
		"POST /console/dead-letters/{id}/discard":          (*pageRequest).discardLetter,
		"GET /console/guarantees":                          (*pageRequest).guarantees,
		"GET /console/guarantees/live":                     (*pageRequest).guaranteesLive,
		"GET /console/notices":                             (*pageRequest).notices,
		"POST /console/notices/rules":                      (*pageRequest).putRule,
		"GET /console/notices/rules/new":                   (*pageRequest).newRule,
		"GET /console/notices/rules/{name}/edit":           (*pageRequest).editRule,
		"GET /console/notices/rules/{name}/delete":         (*pageRequest).askDeleteRule,
		"POST /console/notices/rules/{name}/test":          (*pageRequest).testRule,
		"POST /console/notices/rules/{name}/delete":        (*pageRequest).deleteRule,
		"GET /console/notices/windows/new":                 (*pageRequest).newWindow,
		"POST /console/notices/windows":                    (*pageRequest).putWindow,
		"POST /console/notices/windows/what":               (*pageRequest).windowWhat,
		"GET /console/notices/windows/{name}/edit":         (*pageRequest).editWindow,
		"GET /console/notices/windows/{name}/{verb}":       (*pageRequest).askWindow,
		"POST /console/notices/windows/{name}/{verb}":      (*pageRequest).endWindow,
		"POST /console/notices/{id}/retry":                 (*pageRequest).retryNotice,
		"GET /console/planner":                             (*pageRequest).planner,
		"GET /console/planner/sessions/{id}":               (*pageRequest).session,
		"GET /console/planner/sessions/{id}/undo":          (*pageRequest).confirmUndo,
		"POST /console/planner/sessions/{id}/undo":         (*pageRequest).undo,
		"GET /console/planner/suggestions/{id}/{verdict}":  (*pageRequest).confirmReview,
		"GET /console/planner/tempo/{id}/{verdict}":        (*pageRequest).suggestedTempo,
		"POST /console/planner/suggestions/{id}/{verdict}": (*pageRequest).decide,
	}
	maps.Copy(listed, chainPages())
	return listed
}

// chainPages returns the routes of chains and calls.
func chainPages() map[string]handle {
	return map[string]handle{
		"GET /console/chains":                  (*pageRequest).chains,
		"GET /console/chains/{name}":           (*pageRequest).chain,
		"GET /console/chains/{name}/live":      (*pageRequest).chainLive,
		"POST /console/chains/{name}/run":      (*pageRequest).startChain,
		"GET /console/chain-runs/{id}":         (*pageRequest).chainRun,
		"GET /console/chain-runs/{id}/live":    (*pageRequest).chainRunLive,
		"POST /console/chain-runs/{id}/cancel": (*pageRequest).cancelChainRun,
		"GET /console/calls":                   (*pageRequest).callList,
		"POST /console/calls/{id}/cancel":      (*pageRequest).cancelCall,
	}
}

// forWriters reports whether a page needs the scope write. Every form does, because it changes
// something, sends a request or previews a change. The exception is signing out, which every
// session may do.
func forWriters(pattern string) bool {
	return strings.HasPrefix(pattern, http.MethodPost+" ") && pattern != "POST /console/signout"
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	s.handler.ServeHTTP(w, r)
}

// Drain ends every live page, because a server that stops cannot wait for them. The pages reconnect
// to another server.
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
