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

// Runs makes a trace of every run of a worker: the run itself, from the statement that starts it to the commit of its record, and in it
// the start, the request and the finish. It stands around the store of executions, and the worker tells it of requests. It is safe for
// concurrent use.
type Runs struct {
	dispatch.Executions

	tracer trace.Tracer
	open   sync.Map // runs.ID to trace.Span: runs that have started and not ended
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
		r.begin(asked[run.RunID], step{name: "start", began: began, ended: ended, commit: commit.SpanContext()})
	}
	return started, nil
}

// begin begins the trace of a run that has started.
func (r *Runs) begin(s dispatch.Start, started step) {
	ctx := context.WithValue(context.Background(), traceIDKey{}, trace.TraceID(s.RunID))
	_, span := r.tracer.Start(ctx, "run", trace.WithNewRoot(), trace.WithTimestamp(started.began), trace.WithSpanKind(trace.SpanKindConsumer))
	r.open.Store(s.RunID, span)
	if !span.IsRecording() { // It is kept for its name alone, which the target is told.
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

// step is a part of a run that was done for many runs at once.
type step struct {
	name         string
	began, ended time.Time
	commit       trace.SpanContext // of what was done for all of them
}

// add adds a step to a run.
func (r *Runs) add(run trace.Span, s step) {
	_, span := r.tracer.Start(trace.ContextWithSpan(context.Background(), run), s.name,
		trace.WithTimestamp(s.began), trace.WithLinks(trace.Link{SpanContext: s.commit}))
	span.End(trace.WithTimestamp(s.ended))
}

// Request implements dispatch.Tracer. The span knows the target by its host alone.
func (r *Runs) Request(id runs.ID, q egress.Request) (traceparent string, done func(egress.Response, error)) {
	run, found := r.open.Load(id)
	if !found {
		return "", func(egress.Response, error) {}
	}
	_, span := r.tracer.Start(trace.ContextWithSpan(context.Background(), run.(trace.Span)), q.Method, trace.WithSpanKind(trace.SpanKindClient)) //nolint:forcetypeassert // Nothing else is stored.
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

// otherError is the error.type of errors that have no name of their own.
const otherError = "_OTHER"

// failureOf returns the error.type of a request by the conventions of HTTP clients: the reason that no whole answer came, else a status
// of 400 or more, else "". Whether the endpoint's rules take the answer for a success is said by the span of the run.
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

// target returns what a span may tell of a request's target.
func target(q egress.Request) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(q.Method)}
	u, err := url.Parse(q.URL)
	if err != nil {
		return list
	}
	list = append(list, semconv.URLScheme(u.Scheme), semconv.ServerAddress(u.Hostname()))
	return append(list, semconv.ServerPort(portOf(u)))
}

// portOf returns the port of a URL, which is that of its scheme unless it names one.
func portOf(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// traceparentOf returns the header of W3C Trace Context that makes a span the parent of what the receiver does.
func traceparentOf(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// Dropped implements dispatch.Tracer.
func (r *Runs) Dropped(id runs.ID) {
	if run, found := r.open.LoadAndDelete(id); found {
		span := run.(trace.Span) //nolint:forcetypeassert // Nothing else is stored.
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
	if err != nil { // The worker tries again.
		return done, err
	}
	finished := step{name: "finish", began: began, ended: time.Now(), commit: commit.SpanContext()}
	for _, run := range f.Runs {
		r.complete(run, finished)
	}
	return done, nil
}

// complete ends the trace of a run whose record is written.
func (r *Runs) complete(run runs.Run, finished step) {
	found, open := r.open.LoadAndDelete(run.ID)
	if !open { // It started without our hearing of it.
		return
	}
	span := found.(trace.Span) //nolint:forcetypeassert // Nothing else is stored.
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
