package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/dispatch"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Runs creates a trace for every run of a worker. The trace lasts from the statement that starts
// the run to the commit of its record, and contains the start, the request and the finish. Runs
// wraps the store of executions, and the worker reports requests to it. It is safe for concurrent
// use.
type Runs struct {
	dispatch.Executions

	tracer trace.Tracer
	// open maps runs.ID to trace.Span for runs that have started and not ended.
	open sync.Map
}

var _ dispatch.Tracer = (*Runs)(nil)

// NewRuns wraps the store of executions. p must not be nil.
func NewRuns(p *Provider, s dispatch.Executions) *Runs {
	return &Runs{Executions: s, tracer: p.tracer()}
}

// Start implements dispatch.Executions.
func (r *Runs) Start(ctx context.Context, s dispatch.Starting) ([]dispatch.Started, error) {
	began := time.Now()
	ctx, commit := r.tracer.Start(ctx, "start runs", trace.WithNewRoot(), trace.WithAttributes(attribute.Int("rubato.batch.size", len(s.List))))
	started, err := r.Executions.Start(ctx, s)
	end(commit, err)
	if err != nil {
		return nil, err
	}
	asked := make(map[runs.ID]dispatch.Start, len(s.List))
	for _, one := range s.List {
		asked[one.RunID] = one
	}
	ended := time.Now()
	for _, run := range started {
		r.begin(asked[run.RunID], step{
			name:   "start",
			began:  began,
			ended:  ended,
			commit: commit.SpanContext(),
		})
	}
	return started, nil
}

// begin starts the trace of a run.
func (r *Runs) begin(s dispatch.Start, started step) {
	ctx := context.WithValue(context.Background(), traceIDKey{}, trace.TraceID(s.RunID))
	_, span := r.tracer.Start(ctx, "run", trace.WithNewRoot(), trace.WithTimestamp(started.began), trace.WithSpanKind(trace.SpanKindConsumer))
	r.open.Store(s.RunID, span)
	// An unsampled span is kept because its ID goes to the target.
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("rubato.run.id", s.RunID.String()), attribute.String("rubato.endpoint.id", endpoints.ID(s.Claim.EndpointID).String()),
		attribute.Int("rubato.run.attempt", s.Claim.Attempt), attribute.Int("rubato.run.infra_attempt", s.Claim.InfraAttempt),
		attribute.String("rubato.run.source", s.Claim.Source),
		attribute.String("rubato.run.scheduled_for", s.Claim.Slot.UTC().Format(time.RFC3339Nano)),
		attribute.Int64("rubato.run.claim_token", s.Claim.Token),
	)
	r.add(span, started)
}

// step is a part of a run that one statement performed for a batch of runs.
type step struct {
	name         string
	began, ended time.Time
	// commit is the span of the batch.
	commit trace.SpanContext
}

// add adds a step to the trace of a run.
func (r *Runs) add(run trace.Span, s step) {
	_, span := r.tracer.Start(trace.ContextWithSpan(context.Background(), run), s.name,
		trace.WithTimestamp(s.began), trace.WithLinks(trace.Link{SpanContext: s.commit}))
	span.End(trace.WithTimestamp(s.ended))
}

// Request implements dispatch.Tracer. The span has only the host of the target.
func (r *Runs) Request(id runs.ID, q egress.Request) (traceparent string, done func(egress.Response, error)) {
	run, found := r.open.Load(id)
	if !found {
		return "", func(egress.Response, error) {}
	}
	_, span := r.tracer.Start(trace.ContextWithSpan(context.Background(), run.(trace.Span)), q.Method, trace.WithSpanKind(trace.SpanKindClient)) //nolint:forcetypeassert // Only spans are stored.
	if span.IsRecording() {
		span.SetAttributes(target(q)...)
	}
	return traceparentOf(span.SpanContext()), func(a egress.Response, err error) {
		if a.StatusCode > 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(a.StatusCode))
		}
		if kind := failureOf(a, err); kind != "" {
			fail(span, kind)
		}
		span.End()
	}
}

// otherError is the error.type of errors without a specific type.
const otherError = "_OTHER"

// failureOf returns the error.type of a request by the conventions for HTTP clients. It is the
// reason of an incomplete response, a status of 400 or more, or "". The span of the run, not this
// one, shows whether the endpoint's rules count the response as a success.
func failureOf(a egress.Response, err error) string {
	if failure, is := errors.AsType[*egress.Error](err); is {
		return string(failure.Reason)
	}
	switch {
	case err != nil:
		return otherError
	case a.StatusCode >= http.StatusBadRequest:
		return strconv.Itoa(a.StatusCode)
	default:
		return ""
	}
}

// target returns the attributes of a request's target: method, scheme, host and port.
func target(q egress.Request) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(q.Method)}
	u, err := url.Parse(q.URL)
	if err != nil {
		return list
	}
	list = append(list, semconv.URLScheme(u.Scheme), semconv.ServerAddress(u.Hostname()))
	return append(list, semconv.ServerPort(portOf(u)))
}

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// traceparentOf returns the W3C Trace Context header that makes a span the parent of the receiver's
// spans.
func traceparentOf(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// Dropped implements dispatch.Tracer.
func (r *Runs) Dropped(id runs.ID) {
	if run, found := r.open.LoadAndDelete(id); found {
		span := run.(trace.Span) //nolint:forcetypeassert // Only spans are stored.
		span.SetAttributes(attribute.String("rubato.run.reason", string(runs.LockLost)))
		fail(span, string(runs.LockLost))
		span.End()
	}
}

// Finish implements dispatch.Executions.
func (r *Runs) Finish(ctx context.Context, f dispatch.Finish) (dispatch.Finished, error) {
	began := time.Now()
	ctx, commit := r.tracer.Start(ctx, "finish runs", trace.WithNewRoot(), trace.WithAttributes(attribute.Int("rubato.batch.size", len(f.Runs))))
	done, err := r.Executions.Finish(ctx, f)
	end(commit, err)
	// The worker retries.
	if err != nil {
		return done, err
	}
	finished := step{
		name:   "finish",
		began:  began,
		ended:  time.Now(),
		commit: commit.SpanContext(),
	}
	for _, run := range f.Runs {
		r.complete(run, finished)
	}
	return done, nil
}

// complete ends the trace of a run after its record is committed.
func (r *Runs) complete(run runs.Run, finished step) {
	found, open := r.open.LoadAndDelete(run.ID)
	// The run started before this process traced it.
	if !open {
		return
	}
	span := found.(trace.Span) //nolint:forcetypeassert // Only spans are stored.
	if !span.IsRecording() {
		return
	}
	r.add(span, finished)
	span.SetAttributes(
		attribute.String("rubato.run.status", string(run.Outcome.Status)), attribute.String("rubato.run.reason", string(run.Outcome.Reason)),
	)
	if run.Outcome.Status != runs.Succeeded {
		fail(span, string(run.Outcome.Reason))
	}
	span.End(trace.WithTimestamp(finished.ended))
}
