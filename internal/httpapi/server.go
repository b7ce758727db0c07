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

// Runs is what serving runs needs.
type Runs interface {
	runs.Reader
	runs.Canceler
}

// Config is what a server serves.
type Config struct {
	Auth       *auth.Authenticator
	Endpoints  *endpoints.Service
	Logger     *slog.Logger
	Ready      func(context.Context) error // nil answer: the server can do its work
	Registerer prometheus.Registerer
	Runs       Runs
}

// Server is the REST API. It is safe for concurrent use.
type Server struct {
	auth      *auth.Authenticator
	endpoints *endpoints.Service
	logger    *slog.Logger
	metrics   *metrics
	ready     func(context.Context) error
	router    *echo.Echo
	rules     *rules
	runs      Runs
}

var (
	_ http.Handler              = (*Server)(nil)
	_ api.StrictServerInterface = (*Server)(nil)
)

// New returns a server. It does no I/O and starts nothing.
func New(c Config) *Server {
	s := &Server{
		auth:      c.Auth,
		endpoints: c.Endpoints,
		logger:    c.Logger.With("component", "httpapi"),
		ready:     c.Ready,
		router:    echo.New(),
		rules:     contract(),
		runs:      c.Runs,
	}
	s.metrics = newMetrics(c.Registerer, s.rules)
	s.router.HTTPErrorHandler = s.fail
	s.router.Use(s.identify, s.count, s.recoverPanics, s.authenticate, s.checkQuery, s.readBody)
	api.RegisterHandlers(s.router, api.NewStrictHandler(s, nil))
	return s
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// operation returns the operation of the contract that a request asks for, nil where it asks for none.
func (s *Server) operation(c echo.Context) *operation {
	return s.rules.operations[c.Request().Method+" "+c.Path()]
}
