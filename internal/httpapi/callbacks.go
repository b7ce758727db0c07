package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"rubato/internal/callbacks"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// Callbacks applies the reports of targets about their asynchronous runs.
type Callbacks interface {
	// Report applies a report to the run of a token. The error is an [errs.NotFound] for a wrong
	// token, an [errs.Unauthorized] for a wrong signature, and an [errs.Conflict] if the run is over.
	Report(ctx context.Context, token string, r callbacks.Report) (callbacks.Result, error)
}

// ReportRun applies the report of a target about its asynchronous run.
func (s *Server) ReportRun(ctx context.Context, r api.ReportRunRequestObject) (api.ReportRunResponseObject, error) {
	in := inputOf(ctx)
	report := callbacks.Report{
		Status: callbacks.Status(r.Body.Status),
		Header: in.header,
		Raw:    in.text,
	}
	set(&report.Error, r.Body.Error)
	if body, given := in.value["body"]; given {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding the result of a run: %w", err)
		}
		report.Body = raw
	}
	if err := in.refuse(report.Check()); err != nil {
		return nil, err
	}
	peer := callOf(ctx).peer
	if wait := s.reporters.Allow(peer, time.Now()); wait > 0 {
		return nil, &refusal{
			status: http.StatusTooManyRequests,
			code:   codeTooManyAttempts,
			detail: "too many wrong callback tokens have come from this address; try again later",
		}
	}
	done, err := s.callbacks.Report(ctx, r.Token, report)
	if code := errs.CodeOf(err); err != nil && (code == errs.NotFound || code == errs.Unauthorized) {
		s.reporters.Failed(peer, time.Now())
	}
	if err != nil {
		return nil, err
	}
	return api.ReportRun200JSONResponse{
		RunID:          done.RunID.String(),
		Status:         api.RunStatus(done.Status),
		SuspendedUntil: shown(done.Until),
	}, nil
}
