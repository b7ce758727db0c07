package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/auth"
	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/feed"
	"rubato/internal/hosts"
	"rubato/internal/httpapi/api"
	"rubato/internal/notices"
	"rubato/internal/planner"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/spending"
	"rubato/internal/stats"
)

// requestTimeout is the deadline of a request. It is shorter than the listener's write timeout, so
// that the error can still be sent.
const requestTimeout = 20 * time.Second

// Runs is what serving runs needs.
type Runs interface {
	runs.Reader
	runs.Canceler
}

// Config holds the dependencies and settings of a server.
type Config struct {
	Audit      AuditLog
	Auth       *auth.Authenticator
	Bulk       *endpoints.Bulk
	Calls      *calls.Service
	Endpoints  *endpoints.Service
	Versions   Versions // of endpoints
	Feed       feed.Reader
	Fleet      Fleet
	Keys       *auth.Keyring
	Ledger     Ledger // of decisions
	Letters    *deadletters.Service
	Logger     *slog.Logger
	Notices    *notices.Service
	Once       IdempotencyStore
	Planner    planner.Reviews
	Undo       planner.Undoer
	Origins    []string                    // allowed CORS origins; nil: none
	Proxies    []netip.Prefix              // trusted proxies for X-Forwarded-For; nil: none
	Rate       int                         // requests a second that a tenant may send; 0: any number
	Ready      func(context.Context) error // nil answer: the server can do its work
	Registerer prometheus.Registerer
	Runs       Runs
	Stats      stats.Reader
	Tracers    trace.TracerProvider // traces requests; nil: tracing is off
	Secrets    *secrets.Service
	Budgets    *spending.Service
	Chains     *chains.Service
	Hosts      *hosts.Service
	Signing    *signing.Service
	Tester     Tester
	Callbacks  Callbacks
}

// Server is the REST API. It is safe for concurrent use.
type Server struct {
	audit     AuditLog
	auth      *auth.Authenticator
	bulk      *endpoints.Bulk
	calls     *calls.Service
	drain     context.CancelFunc
	endpoints *endpoints.Service
	versions  Versions
	feed      feed.Reader
	fleet     Fleet
	imports   turns
	keys      *auth.Keyring
	ledger    Ledger
	letters   *deadletters.Service
	limiter   *limiter
	logger    *slog.Logger
	metrics   *metrics
	notices   *notices.Service
	once      IdempotencyStore
	origins   []string
	planner   planner.Reviews
	undo      planner.Undoer
	proxies   []netip.Prefix
	ready     func(context.Context) error
	router    *echo.Echo
	rules     *rules
	runs      Runs
	tracer    trace.Tracer    // nil: tracing is off
	serving   context.Context //nolint:containedctx // Ends when the server drains; see Drain.
	stats     stats.Reader
	secrets   *secrets.Service
	budgets   *spending.Service
	chains    *chains.Service
	hosts     *hosts.Service
	signing   *signing.Service
	tester    Tester
	callbacks Callbacks
	// reporters throttles guesses of callback tokens.
	reporters *auth.Attempts
	// lookups holds an entry per look-up of a callback token for a throttled client.
	lookups chan struct{}
	tests   turns
	watches turns
}

var (
	_ http.Handler              = (*Server)(nil)
	_ api.StrictServerInterface = (*Server)(nil)
)

// New returns a server. It does no I/O and starts nothing.
func New(c Config) *Server {
	s := &Server{
		audit:     c.Audit,
		auth:      c.Auth,
		bulk:      c.Bulk,
		endpoints: c.Endpoints,
		versions:  c.Versions,
		feed:      c.Feed,
		fleet:     c.Fleet,
		imports:   turns{auth.NewQuota(importLimits()), codeTooManyStreams, "too many imports run at the moment; try again when one has ended"},
		keys:      c.Keys,
		ledger:    c.Ledger,
		letters:   c.Letters,
		calls:     c.Calls,
		limiter:   newLimiter(c.Rate),
		logger:    c.Logger.With("component", "httpapi"),
		notices:   c.Notices,
		once:      c.Once,
		origins:   c.Origins,
		planner:   c.Planner,
		undo:      c.Undo,
		proxies:   c.Proxies,
		ready:     c.Ready,
		router:    echo.New(),
		rules:     contract(),
		runs:      c.Runs,
		stats:     c.Stats,
		secrets:   c.Secrets,
		budgets:   c.Budgets,
		chains:    c.Chains,
		hosts:     c.Hosts,
		signing:   c.Signing,
		tester:    c.Tester,
		callbacks: c.Callbacks,
		reporters: auth.NewAttempts(),
		lookups:   make(chan struct{}, maxLookups),
		tests:     turns{auth.NewQuota(testLimits()), codeTooManyTests, "too many tests are under way at the moment; try again when one has ended"},
		watches:   turns{auth.NewQuota(watchLimits()), codeTooManyStreams, "too many clients watch events at the moment; close one first"},
	}
	if c.Tracers != nil {
		s.tracer = c.Tracers.Tracer("rubato/internal/httpapi")
	}
	s.serving, s.drain = context.WithCancel(context.Background())
	s.metrics = newMetrics(c.Registerer, s.rules)
	s.router.HTTPErrorHandler = s.fail
	s.router.Use(
		s.identify, s.traceRequest, s.compress, s.count, s.recoverPanics, s.share, s.bound,
		s.authenticate, s.limit, s.checkParameters, s.readBody, s.doOnce,
	)
	api.RegisterHandlers(s.router, api.NewStrictHandler(s, nil))
	for _, route := range s.router.Routes() {
		if s.rules.operations[route.Method+" "+route.Path] == nil { // Without a rule, API keys would not be checked. Every test would hit this panic.
			panic("the contract does not know the route " + route.Method + " " + route.Path)
		}
	}
	return s
}

// ServeHTTP serves one request. A HEAD is answered as a GET of the same, of which the connection
// keeps the body back.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead && s.heads(r) {
		asked := r.WithContext(r.Context())
		asked.Method = http.MethodGet
		r = asked
	}
	s.router.ServeHTTP(w, r)
}

// heads reports whether HEAD is answered where a request asks for it: wherever GET is, but for
// streams, which never end.
func (s *Server) heads(r *http.Request) bool {
	c := s.router.NewContext(r, nil)
	s.router.Router().Find(http.MethodGet, echo.GetPath(r), c)
	op := s.rules.operations[http.MethodGet+" "+c.Path()]
	return op != nil && !op.streams
}

// operation returns the operation of the contract that a request asks for, nil where it asks for
// none.
func (s *Server) operation(c echo.Context) *operation {
	return s.rules.operations[c.Request().Method+" "+c.Path()]
}
