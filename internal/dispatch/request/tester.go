package request

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/template"
)

// TestTimeout is the maximum timeout of a test's request. A longer timeout of the endpoint is cut,
// because a user waits for the result.
const TestTimeout = 30 * time.Second

// TestLimit is the longest duration of a whole test: reading secrets, the access token, the
// request.
const TestLimit = TestTimeout + tokenLimit + secretsWait

// Tests is the database of a [Tester].
type Tests interface {
	// Begin records the test in the audit log under the ID that id returns. It returns the data
	// that a run would get at its start. The error is an [errs.Invalid] if the endpoint is not
	// stored and names missing secrets.
	Begin(ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint, id func(now time.Time) runs.ID) (TestStart, error)
}

// TestStart is the data of a test at its begin.
type TestStart struct {
	ID runs.ID
	// Now is the database time.
	Now time.Time
	// SecretsVersion is the version of the tenant's secrets.
	SecretsVersion int64
	// Last is the result of the endpoint's last run. It is zero if the endpoint is not stored.
	Last template.Last
}

// TesterConfig holds the dependencies of a tester.
type TesterConfig struct {
	Tests  Tests
	Egress *egress.Client
	// Allowances are the tenants' own entries of the egress allow list; nil: none.
	Allowances Allowances
	Secrets    Secrets
	// Chains starts the chains of endpoints; nil: they cannot be started.
	Chains Chains
	Logger *slog.Logger
}

// Tester sends the requests of endpoints as runs do, and records no run. It is safe for concurrent
// use. Use NewTester, and Close at the end.
type Tester struct {
	tests  Tests
	caller *Caller
}

// NewTester returns a tester.
func NewTester(c TesterConfig) *Tester {
	logger := c.Logger.With("component", "tests")
	return &Tester{tests: c.Tests, caller: New(Config{
		Egress:     c.Egress,
		Allowances: c.Allowances,
		Secrets:    unrecordedSecrets{c.Secrets},
		Chains:     c.Chains,
		Logger:     logger,
	})}
}

// Close cancels the requests for access tokens in flight.
func (t *Tester) Close() { t.caller.Close() }

// unrecordedSecrets is the cache of secrets without the record of their use. The last use of a
// secret shows which endpoint depends on it, and a test does not.
type unrecordedSecrets struct{ Secrets }

// Used records nothing.
func (unrecordedSecrets) Used([16]byte, []string, [16]byte) {}

// Test sends the request of an endpoint once, and returns the result within [TestLimit]. The
// request equals that of a run that starts now, with three differences: it has the header
// Rubato-Test, it has no Rubato-Fence, because there is no claim, and it is never conditional. An
// endpoint of version 0 is not stored. A failed request is a result, not an error. The error is an
// [errs.Unavailable] if ctx ended first, and an [errs.Conflict] if the stored endpoint is invalid
// for this release.
func (t *Tester) Test(ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint) (runs.TestResult, error) {
	tested := *e
	tested.Spec.Conditional = false
	tested.Spec.Timeout = min(tested.Spec.Timeout, TestTimeout)
	target, err := NewTarget(tested.TenantID, &tested.Spec)
	if err != nil {
		return runs.TestResult{}, errs.New(errs.Conflict, "endpoint_unusable", "the stored endpoint is invalid; edit it to fix: "+err.Error())
	}
	begun, err := t.tests.Begin(ctx, by, &tested, testID)
	if err != nil {
		return runs.TestResult{}, err
	}
	began := time.Now()
	result := t.send(ctx, &target, &tested, begun)
	result.Duration = time.Since(began)
	if ctx.Err() != nil {
		return runs.TestResult{}, errs.Wrap(context.Cause(ctx), errs.Unavailable, "the test was canceled before the target answered; the target may have received the request")
	}
	return result, nil
}

// testID returns an ID that no run has, because it is made from a random endpoint ID.
func testID(now time.Time) runs.ID {
	var endpoint [16]byte
	_, _ = rand.Read(endpoint[:]) // It never fails.
	return runs.FirstAttempt(now, endpoint)
}

// send sends the request, and applies the success rules to the answer.
func (t *Tester) send(ctx context.Context, target *Target, e *endpoints.Endpoint, begun TestStart) runs.TestResult {
	began := time.Now()
	now := func() (time.Time, bool) { return begun.Now.Add(time.Since(began)), true }
	c := *t.caller
	c.cfg.Now = now
	run := &Run{
		ID:             begun.ID,
		EndpointID:     e.ID,
		TenantID:       e.TenantID,
		Slot:           begun.Now,
		Attempt:        1,
		StartedAt:      begun.Now,
		SecretsVersion: begun.SecretsVersion,
		Last:           begun.Last,
		Target:         target,
	}
	result := runs.TestResult{
		ID:         begun.ID,
		SentAt:     begun.Now,
		BrokenRule: -1,
	}
	r, refusal := c.build(ctx, run, began)
	if refusal != nil {
		result.Outcome = *refusal
		return result
	}
	r.Meta.Set("Rubato-Test", "true")
	r.Meta.Set("Idempotency-Key", begun.ID.String())
	r.Meta.Del("Rubato-Fence")
	result.SentAt, _ = now()
	answer, err := c.cfg.Egress.Do(ctx, r.Request)
	c.ForgetRefusedToken(r, answer)
	at, _ := now()
	judged, done := context.WithDeadline(ctx, began.Add(TestLimit))
	defer done()
	o, broken := c.outcome(judged, r.runSecrets, target, Exchange{
		Answer: answer,
		Err:    err,
		At:     at,
	})
	result.Outcome, result.BrokenRule = shorten(o), broken
	if failure, failed := errors.AsType[*egress.Error](err); !failed || failure.Sent {
		result.Request = r.redacted(c.cfg.Egress)
	}
	if answer.StatusCode != 0 {
		result.Answer = r.redactedHeader(target, answer)
	}
	return result
}
