package calls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// Rerun sends the call of a recorded run again as a call of its own, with its request, rules and
// callback, at once. A call never changes, so it is the same as it is now. first is false if the
// key of the rerun already stands for a call, which is returned then. The error is an
// [errs.NotFound] if the call is no longer kept, and an [errs.Invalid] if its request is no longer
// allowed.
func (s *Service) Rerun(ctx context.Context, by auditlog.Actor, r endpoints.Rerun) (c *Call, first bool, err error) {
	if err := checkRerun(r); err != nil {
		return nil, false, err
	}
	was, err := s.store.Get(ctx, by.TenantID, ID(r.Past.Endpoint))
	if err != nil {
		return nil, false, err
	}
	request := Request{Spec: was.Spec, Deadline: r.Deadline}
	request.Spec.Priority = cmp.Or(r.Priority, was.Spec.Priority)
	if was.Callback != "" {
		request.Callback = &was.Callback
	}
	if r.Key != nil {
		request.Key = new(rerunKey(r))
	}
	if err := s.Check(by.TenantID, request); err != nil {
		return nil, false, err
	}
	again := request.call(by)
	again.RerunOf, again.DueFor = r.Past.RunID, cmp.Or(was.DueFor, was.NotBefore)
	if r.SameKey {
		again.SentKey = cmp.Or(was.SentKey, r.Past.Key)
	}
	return s.send(ctx, again, request)
}

// checkRerun refuses bad fields, and those that a call does not have.
func checkRerun(r endpoints.Rerun) error {
	if !r.Force {
		return r.Check()
	}
	return errs.InvalidFields(append(errs.FieldsOf(r.Check()), errs.Field{
		Field:   "force",
		Code:    "invalid_value",
		Message: "must be left out, because the run is that of a call, which waits while the circuit breaker of its host is open",
	}))
}

// rerunKey returns the deduplication key of a rerun with an idempotency key. It differs from the
// keys that users give to calls, and between the runs that are repeated.
func rerunKey(r endpoints.Rerun) string {
	sum := sha256.Sum256(append(r.Past.RunID[:], *r.Key...))
	return "rerun:" + hex.EncodeToString(sum[:])
}
