package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"rubato/internal/claims"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/oauth2"
	"rubato/internal/runs"
	"rubato/internal/template"
)

// TestTimeout is the longest that the request of a test may take, whatever its endpoint allows: somebody waits for it.
const TestTimeout = 30 * time.Second

// TestLimit is the longest that a test may take in all, with the access token that it may need first.
const TestLimit = TestTimeout + tokenLimit + secretsWait

// Tests is what testing endpoints needs of the database.
type Tests interface {
	// Begin notes in the audit log that somebody tests an endpoint, under the ID of the test, and returns what a run would know that
	// starts now. The error is an [errs.Invalid] where the endpoint is not stored and names secrets that are not there.
	Begin(ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint, id func(now time.Time) runs.ID) (Begun, error)
}

// Begun is what is known when a test begins.
type Begun struct {
	ID             runs.ID
	Now            time.Time     // database time
	SecretsVersion int64         // of the tenant's secrets
	Last           template.Last // the run before; of an endpoint that is not stored there is none
}

// TesterConfig says what a tester works with.
type TesterConfig struct {
	Tests      Tests
	Egress     *egress.Client
	Allowances Allowances // nil: nothing
	Secrets    Secrets
	Logger     *slog.Logger
}

// Tester sends requests as runs send them, and records no run. It is safe for concurrent use. Use NewTester, and Close at the end.
type Tester struct {
	tests Tests
	calls calls
}

// NewTester returns a tester.
func NewTester(c TesterConfig) *Tester {
	logger := c.Logger.With("component", "tests")
	return &Tester{tests: c.Tests, calls: calls{
		egress: c.Egress, allowances: c.Allowances, secrets: unnoted{c.Secrets}, judging: newJudging(), tokens: oauth2.New(c.Egress), logger: logger,
	}}
}

// Close ends the requests for access tokens that are under way.
func (t *Tester) Close() { t.calls.tokens.Close() }

// unnoted does not note the use of secrets: what used one last tells who would miss it, and nobody misses a test.
type unnoted struct{ Secrets }

// Used notes nothing.
func (unnoted) Used([16]byte, []string, [16]byte) {}

// Test sends the request of an endpoint once, as a run that starts now would: the same request but for the headers Rubato-Test, which it
// has in addition, and Rubato-Fence, since there is no claim, and never conditional. An endpoint of version 0 is not stored. It answers
// within [TestLimit]. Whatever becomes of the request is no error; the error is an [errs.Unavailable] where ctx ended first, and an
// [errs.Conflict] where the endpoint is stored in a way that this release does not allow.
func (t *Tester) Test(ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint) (runs.TestResult, error) {
	tested := *e
	tested.Spec.Conditional = false
	tested.Spec.Timeout = min(tested.Spec.Timeout, TestTimeout)
	target, err := NewTarget(tested.TenantID, &tested.Spec)
	if err != nil {
		return runs.TestResult{}, errs.New(errs.Conflict, "endpoint_unusable", "the stored endpoint cannot be used; mend it by an edit: "+err.Error())
	}
	begun, err := t.tests.Begin(ctx, by, &tested, testID)
	if err != nil {
		return runs.TestResult{}, err
	}
	began := time.Now()
	result := t.send(ctx, &target, &tested, begun)
	result.Duration = time.Since(began)
	if ctx.Err() != nil {
		return runs.TestResult{}, errs.Wrap(context.Cause(ctx), errs.Unavailable, "the test was given up before there was an answer; the target may have got its request")
	}
	return result, nil
}

// testID returns an ID that no run has.
func testID(now time.Time) runs.ID {
	var nobody [16]byte
	_, _ = rand.Read(nobody[:]) // It never fails.
	return runs.NewID(now, nobody, 1, 0)
}

// send sends the request and judges the answer.
func (t *Tester) send(ctx context.Context, target *Target, e *endpoints.Endpoint, begun Begun) runs.TestResult {
	began, c := time.Now(), t.calls
	now := func() (time.Time, bool) { return begun.Now.Add(time.Since(began)), true }
	c.now = now
	b := &waiting{target: target, claim: claims.Claim{EndpointID: e.ID, Slot: begun.Now, Attempt: 1}}
	result := runs.TestResult{ID: begun.ID, SentAt: begun.Now, BrokenRule: -1}
	r, refusal := c.build(ctx, b, Started{
		EndpointID: e.ID, TenantID: e.TenantID, RunID: begun.ID, StartedAt: begun.Now, SecretsVersion: begun.SecretsVersion, Last: begun.Last,
	}, began)
	if refusal != nil {
		result.Outcome = *refusal
		return result
	}
	r.Meta.Set("Rubato-Test", "true")
	r.Meta.Set("Idempotency-Key", begun.ID.String())
	r.Meta.Del("Rubato-Fence")
	result.SentAt, _ = now()
	answer, err := c.egress.Do(ctx, r.Request)
	c.forgetRefusedToken(r, answer)
	at, _ := now()
	judged, done := context.WithDeadline(ctx, began.Add(TestLimit))
	defer done()
	o, broken := c.outcome(judged, r.unlocked, target, exchange{answer: answer, err: err, at: at})
	result.Outcome, result.BrokenRule = shorten(o), broken
	if failure, failed := errors.AsType[*egress.Error](err); !failed || failure.Sent {
		result.Request = r.shown(c.egress)
	}
	if answer.StatusCode != 0 {
		result.Answer = r.shownAnswer(target, answer)
	}
	return result
}
