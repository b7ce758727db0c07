package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/feed"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// The bounds that a listener serving the API should set. No request has a body that takes long to send, and no header that we
// know is long.
const (
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 15 * time.Second
	MaxHeaderBytes    = 64 << 10
)

// Config is what a server serves.
type Config struct {
	Auth       *auth.Authenticator
	Bulk       *endpoints.Bulk
	Endpoints  *endpoints.Service
	Feed       feed.Reader
	Logger     *slog.Logger
	Ready      func(context.Context) error // nil answer: the server can do its work
	Registerer prometheus.Registerer
	Runs       runs.Reader
}

// Server is the REST API. It is safe for concurrent use.
type Server struct {
	auth      *auth.Authenticator
	bulk      *endpoints.Bulk
	drain     context.CancelFunc
	endpoints *endpoints.Service
	feed      feed.Reader
	imports   *limiter
	logger    *slog.Logger
	metrics   *metrics
	ready     func(context.Context) error
	router    *echo.Echo
	rules     *rules
	runs      runs.Reader
	serving   context.Context //nolint:containedctx // Ends when the server drains; see Drain.
	watches   *limiter
}

var (
	_ http.Handler              = (*Server)(nil)
	_ api.StrictServerInterface = (*Server)(nil)
)

// New returns a server. It does no I/O and starts nothing.
func New(c Config) *Server {
	s := &Server{
		auth:      c.Auth,
		bulk:      c.Bulk,
		endpoints: c.Endpoints,
		feed:      c.Feed,
		imports:   newLimiter(maxImportsPerKey, maxImports, "too many imports run at the moment; try again when one has ended"),
		logger:    c.Logger.With("component", "httpapi"),
		ready:     c.Ready,
		router:    echo.New(),
		rules:     contract(),
		runs:      c.Runs,
		watches:   newLimiter(maxWatchesPerKey, maxWatches, "too many clients watch events at the moment; close one first"),
	}
	s.serving, s.drain = context.WithCancel(context.Background())
	s.metrics = newMetrics(c.Registerer, s.rules)
	s.router.HTTPErrorHandler = s.fail
	s.router.Use(s.identify, s.count, s.recoverPanics, s.authenticate, s.checkQuery, s.readBody)
	api.RegisterHandlers(s.router, api.NewStrictHandler(s, nil))
	for _, route := range s.router.Routes() {
		if s.rules.operations[route.Method+" "+route.Path] == nil { // Nobody would check keys there. Every test would meet this one.
			panic("the contract does not know the route " + route.Method + " " + route.Path)
		}
	}
	return s
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// operation returns the operation of the contract that a request asks for, nil where it asks for none.
func (s *Server) operation(c echo.Context) *operation {
	return s.rules.operations[c.Request().Method+" "+c.Path()]
}
