package httpapi

import (
	"context"
	"errors"
	"strings"

	contractfile "rubato/api"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// codeNotReady is the code of the problem that answers /readyz. The health checks log its reason
// once, not every probe.
const codeNotReady = "not_ready"

// GetHealth answers that the process is alive.
func (s *Server) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	return api.GetHealth200JSONResponse{Status: "ok"}, nil
}

// GetReadiness reports readiness. If the server is not ready, the problem names each failing check
// that may be shown.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	if err := s.ready(ctx); err != nil {
		if problem, is := errors.AsType[*errs.Error](err); is && problem.Code == errs.Unavailable {
			return nil, problem
		}
		return nil, errs.Wrap(err, errs.Unavailable, "the server is not ready; try again")
	}
	return api.GetReadiness200JSONResponse{Status: "ready"}, nil
}

// GetContract answers the contract itself.
func (s *Server) GetContract(context.Context, api.GetContractRequestObject) (api.GetContractResponseObject, error) {
	text := contractfile.OpenAPI()
	return api.GetContract200ApplicationYamlResponse{Body: strings.NewReader(text), ContentLength: int64(len(text))}, nil
}
