package httpapi

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

const (
	// testTimeout bounds a request for a test: the test itself, which ends within 41 s, and its
	// audit entry.
	testTimeout = 45 * time.Second
	// testWriteTimeout is when the client of a test must have read its answer.
	testWriteTimeout = testTimeout + 10*time.Second
)

// testLimits bounds tests: each may hold some MiB.
func testLimits() auth.QuotaLimits {
	return auth.QuotaLimits{
		PerTenant: 8,
		All:       32,
		Reserved:  2,
	}
}

// Tester sends the requests of endpoints once, as runs would.
type Tester interface {
	// Test sends the request of an endpoint, within 41 s. An endpoint of version 0 is not stored.
	// Whatever becomes of the request is no error.
	Test(ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint) (runs.TestResult, error)
}

// sends reports whether an operation waits for a target.
func (op *operation) sends() bool {
	return op.id == "testEndpoint" || op.id == "testRequest" || op.id == "testNoticeRule"
}

// TestEndpoint sends the request of an endpoint once.
func (s *Server) TestEndpoint(ctx context.Context, r api.TestEndpointRequestObject) (api.TestEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, _, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	if e.Archived() {
		return nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and is not called any more; test its fields by POST /v1/test, or rubato test")
	}
	answer, err := s.test(ctx, e)
	if err != nil {
		return nil, err
	}
	return api.TestEndpoint200JSONResponse{TestResultJSONResponse: answer}, nil
}

// TestRequest sends the request of an endpoint that is not stored once.
func (s *Server) TestRequest(ctx context.Context, r api.TestRequestRequestObject) (api.TestRequestResponseObject, error) {
	in := inputOf(ctx)
	in.refuseMask()
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return nil, fmt.Errorf("reading an endpoint: %w", err)
	}
	if in.bad() {
		return nil, s.refuseSpec(ctx, in, spec, s.endpoints.Check(spec))
	}
	e, err := s.endpoints.Draft(actorOf(ctx), spec)
	if err != nil {
		return nil, s.refuseSpec(ctx, in, spec, err)
	}
	answer, err := s.test(ctx, e)
	if err != nil {
		return nil, s.refuseSpec(ctx, in, spec, err)
	}
	return api.TestRequest200JSONResponse{TestResultJSONResponse: answer}, nil
}

// test sends a request, where there is room for one more at the moment. A server that stops waits
// for no target.
func (s *Server) test(ctx context.Context, e *endpoints.Endpoint) (api.TestResultJSONResponse, error) {
	release, err := s.tests.acquire(principalOf(ctx).TenantID)
	if err != nil {
		return api.TestResultJSONResponse{}, err
	}
	defer release()
	ctx, cancel := s.whileServing(ctx)
	defer cancel()
	result, err := s.tester.Test(ctx, actorOf(ctx), e)
	if err != nil {
		return api.TestResultJSONResponse{}, err
	}
	return api.TestResultJSONResponse(testAnswer(result)), nil
}

// testAnswer returns the outcome of a test as the API shows it.
func testAnswer(r runs.TestResult) api.TestResult {
	o := r.Outcome
	var exchange api.Run
	showExchange(&exchange, o)
	showBody(&exchange, o)
	out := api.TestResult{
		RunID:          r.ID.String(),
		Status:         api.RunStatus(o.Status),
		ReasonCode:     string(o.Reason),
		SentAt:         r.SentAt.UTC(),
		DurationMs:     millis(r.Duration),
		StatusCode:     exchange.StatusCode,
		Phases:         *exchange.Phases,
		ResponseBytes:  o.ResponseBytes,
		Truncated:      o.Truncated,
		ContentType:    optional(o.ContentType),
		Body:           exchange.Body,
		BodyBase64:     exchange.BodyBase64,
		BodyTail:       exchange.BodyTail,
		BodyTailBase64: exchange.BodyTailBase64,
		Error:          optional(o.Error),
		Stop:           optional(o.Stop),
		RetryAfter:     shown(o.RetryAfter),
		TargetNext:     shown(o.TargetNext),
		FreshUntil:     shown(o.FreshUntil),
	}
	if r.BrokenRule >= 0 {
		out.BrokenRule = new(int32(r.BrokenRule))
	}
	if r.Answer != nil {
		out.Headers = new(map[string][]string(r.Answer))
	}
	if sent := r.Request; sent != nil {
		out.Request = &api.SentRequest{
			Method:    sent.Method,
			URL:       sent.URL,
			Headers:   sent.Header,
			Truncated: sent.Cut,
		}
		head := sent.Body
		if sent.Cut {
			head = withoutPartialEnd(head)
		}
		out.Request.Body, out.Request.BodyBase64 = textOrBytes(head)
	}
	return out
}
