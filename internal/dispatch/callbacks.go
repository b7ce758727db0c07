package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/budget"
	"rubato/internal/callbacks"
	"rubato/internal/claims"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// CallbackStore is the database of [Callbacks].
type CallbackStore interface {
	// Reported returns the run of a callback token with its endpoint, and the database's time.
	// Nothing says yet that the run exists, or that it is suspended. The error is an
	// [errs.NotFound] if there is no such endpoint.
	Reported(ctx context.Context, held claims.FencedRun) (run SuspendedRun, now time.Time, err error)
	// End is that of [Suspensions].
	End(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (bool, error)
	// Extend starts the wait of a suspended run again, and returns its new end. extended is false
	// if the run is not suspended any more.
	Extend(ctx context.Context, run SuspendedRun) (until time.Time, extended bool, err error)
	// Late records the report about a run that has ended, at most [MaxLateReports] for each run. It
	// reports false if the run has not ended.
	Late(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (ended bool, err error)
}

// MaxLateReports bounds the late reports that are recorded of one run, because a target may repeat
// them without end.
const MaxLateReports = 10

// Callbacks applies the reports of targets about their asynchronous runs. It is safe for concurrent
// use. Use NewCallbacks.
type Callbacks struct {
	store CallbackStore
	calls calls
	ended *prometheus.CounterVec
}

// NewCallbacks returns the service of callbacks. keys opens the signing keys of tenants; nil:
// signed callbacks are refused.
func NewCallbacks(store CallbackStore, keys Secrets, logger *slog.Logger, r prometheus.Registerer) *Callbacks {
	ended := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_callbacks_ended_total", Help: "Suspended runs that a report of their target ended, by status. A worker does not count them as finished.",
	}, []string{"status"})
	for _, status := range []runs.Status{runs.Succeeded, runs.Failed} {
		ended.WithLabelValues(string(status))
	}
	return &Callbacks{
		store: store,
		ended: ended,
		calls: calls{
			secrets: keys,
			judging: newJudging(),
			logger:  logger.With("component", "callbacks"),
		},
	}
}

// Report applies a report to the run of a token. A run ends once: of concurrent reports exactly one
// ends it, and the others get an [errs.Conflict]. The error is an [errs.NotFound] for a wrong
// token, and an [errs.Unauthorized] for a wrong signature.
func (c *Callbacks) Report(ctx context.Context, token string, r callbacks.Report) (callbacks.Result, error) {
	subject, proves, err := callbacks.Open(token)
	if err != nil {
		return callbacks.Result{}, err
	}
	run, now, err := c.store.Reported(ctx, claims.FencedRun{
		EndpointID: subject.EndpointID,
		RunID:      subject.RunID,
		Token:      subject.Fence,
	})
	if errs.CodeOf(err) == errs.NotFound || err == nil && !proves(run.Target.callbackKey) {
		return callbacks.Result{}, callbacks.ErrUnknown()
	}
	if err != nil {
		return callbacks.Result{}, err
	}
	u, err := c.verify(ctx, run, r, now)
	if err != nil {
		return callbacks.Result{}, err
	}
	if r.Status == callbacks.Progress {
		return c.extend(ctx, run)
	}
	return c.end(ctx, run, c.outcomeOf(ctx, u, run, r, now))
}

// verify checks the signature of a report if the endpoint asks for one, and returns the secrets
// that its body must not show.
func (c *Callbacks) verify(ctx context.Context, run SuspendedRun, r callbacks.Report, now time.Time) (runSecrets, error) {
	signed := run.Target.Spec.Async.Callback == endpoints.CallbackSigned
	if !signed && !run.Target.needsSecrets() {
		return runSecrets{}, nil
	}
	if c.calls.secrets == nil {
		return runSecrets{}, errs.New(errs.Unavailable, "", "this server has no access to secrets; set RUBATO_SECRET_KEYS")
	}
	set, err := c.calls.secrets.At(ctx, run.TenantID, run.SecretsVersion)
	if err != nil {
		return runSecrets{}, fmt.Errorf("reading the secrets for a report about run %s: %w", run.ID, err)
	}
	if signed {
		keys, err := set.SigningKeys(now)
		if err != nil {
			return runSecrets{}, fmt.Errorf("reading the signing keys for a report about run %s: %w", run.ID, err)
		}
		if err := signing.Verify(r.Header, r.Raw, keys, now); err != nil {
			return runSecrets{}, errs.New(errs.Unauthorized, "signature_invalid", "the report is not signed with a signing key of the tenant: "+err.Error())
		}
	}
	u := runSecrets{set: set}
	for _, name := range run.Target.Secrets {
		if value, err := set.Secret(name); err == nil { // A secret that was deleted meanwhile is not known.
			u.values = append(u.values, value)
		}
	}
	u.values = append(u.values, run.Target.Credentials...)
	return u, nil
}

// extend applies a report of progress.
func (c *Callbacks) extend(ctx context.Context, run SuspendedRun) (callbacks.Result, error) {
	until, extended, err := c.store.Extend(ctx, run)
	switch {
	case err != nil:
		return callbacks.Result{}, err
	case !extended:
		return callbacks.Result{}, finishedError(run.ID)
	}
	return callbacks.Result{RunID: run.ID, Status: runs.Running, Until: until}, nil
}

const (
	// earlyReports bounds how often a report waits for the suspension of its run. A fast target may
	// report before the worker has stored its answer 202.
	earlyReports = 20
	earlyWait    = 100 * time.Millisecond
)

// end ends a run, or records that it had ended before.
func (c *Callbacks) end(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (callbacks.Result, error) {
	for range earlyReports {
		ended, err := c.store.End(ctx, run, outcome)
		if err != nil {
			return callbacks.Result{}, err
		}
		if ended {
			c.ended.WithLabelValues(string(outcome.Status)).Inc()
			return callbacks.Result{RunID: run.ID, Status: outcome.Status}, nil
		}
		late, err := c.store.Late(ctx, run, outcome)
		if err != nil {
			return callbacks.Result{}, err
		}
		if late {
			return callbacks.Result{}, finishedError(run.ID)
		}
		sleep(ctx, earlyWait)
	}
	return callbacks.Result{}, errs.New(errs.Unavailable, "", fmt.Sprintf("run %s does not wait for its end yet; report again after the response 202", run.ID))
}

func finishedError(run runs.ID) error {
	return errs.New(errs.Conflict, "run_finished", fmt.Sprintf("run %s does not wait for a report any more, so that this one changes nothing", run))
}

// outcomeOf returns the outcome that a report gives its run. The body is judged and redacted like
// the body of an answer 202.
func (c *Callbacks) outcomeOf(ctx context.Context, u runSecrets, run SuspendedRun, r callbacks.Report, now time.Time) runs.Outcome {
	limit := run.Target.Spec.MaxResponseKB << 10
	head := r.Body[:min(len(r.Body), limit)]
	header := http.Header{}
	if len(r.Body) > 0 {
		header.Set("Content-Type", "application/json")
	}
	o, _ := c.calls.outcome(ctx, u, run.Target, exchange{
		at: now,
		answer: egress.Response{
			StatusCode: http.StatusAccepted,
			Header:     header,
			Body:       bytes.Clone(head),
			BytesRead:  int64(len(r.Body)),
			Truncated:  len(r.Body) > limit,
		},
	})
	if r.Status == callbacks.Failed {
		o.Status, o.Reason = runs.Failed, runs.CallbackFailed
		o.Error = "the target reported that the run failed"
		if r.Error != "" {
			shown := secrets.NewMask(u.values...).Text(printable(r.Error, maxReported))
			o.Error = "the target reported: " + run.Target.Redact.Text(shown, budget.New(ctx.Done()))
		}
	}
	return o
}

// maxReported bounds the reported cause of a failure, in bytes.
const maxReported = 2000

// offerCallback adds the callback URL to the request of an asynchronous run. It is a credential: a
// redirect to another host drops it, and answers that echo it are masked.
func (c *calls) offerCallback(r *outgoing, b *waiting, s Started) {
	if c.callbacks == "" || b.target.callbackKey == nil || b.target.Spec.Async.Callback == endpoints.CallbackNone {
		return
	}
	token := callbacks.Token(b.target.callbackKey, callbacks.Subject{
		EndpointID: b.claim.Endpoint(),
		RunID:      s.RunID,
		Fence:      b.claim.Token,
	})
	r.Meta[callbacks.Header] = []string{c.callbacks + callbacks.Path + token}
	r.Credentials = append(slices.Clip(r.Credentials), callbacks.Header)
	r.values = append(slices.Clip(r.values), token)
}
