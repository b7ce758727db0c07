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
	// Known reports whether a token is genuine, at the cost of one look-up.
	Known(ctx context.Context, token string) (bool, error)
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
	if err := s.admitReport(ctx, peer, r.Token); err != nil {
		return nil, err
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

const (
	// maxLookups bounds the look-ups that tokens of throttled clients cost the database at once.
	// A look-up by key takes less than a millisecond, so that four at once check thousands of tokens
	// a second.
	maxLookups = 4
	// lookupWait bounds the wait for such a look-up.
	lookupWait = 2 * time.Second
)

// admitReport throttles wrong tokens, per client address and for all addresses together. A genuine
// token passes in any case, because its client may share an address with a client that guesses, and
// shares the bound of all addresses with all of them.
func (s *Server) admitReport(ctx context.Context, peer, token string) error {
	if s.reporters.Allow(peer, time.Now()) == 0 {
		return nil
	}
	waiting, stop := context.WithTimeout(ctx, lookupWait)
	defer stop()
	known := false
	select {
	case s.lookups <- struct{}{}:
		var err error
		known, err = s.callbacks.Known(ctx, token)
		<-s.lookups
		if err != nil {
			return err
		}
	case <-waiting.Done():
	}
	if known {
		return nil
	}
	s.reporters.Failed(peer, time.Now())
	return &refusal{
		status: http.StatusTooManyRequests,
		code:   codeTooManyAttempts,
		detail: "too many wrong callback tokens have come from this address; try again later",
	}
}
