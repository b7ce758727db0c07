package httpapi

import (
	"maps"

	"github.com/labstack/echo/v4"
)

// Route adds a public route that the contract does not have.
func (s *Server) Route(path string, streams bool, h echo.HandlerFunc) {
	known := maps.Clone(s.rules.operations)
	known["GET "+path] = &operation{method: "GET", route: path, public: true, streams: streams}
	s.rules = &rules{operations: known, explain: s.rules.explain}
	s.router.GET(path, h)
}

// PastOf is pastOf, for tests.
var PastOf = pastOf

// ShadowOf is shadowOf, for tests.
var ShadowOf = shadowOf
