package endpoints

import (
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/governor"
)

// Object returns the reference to the endpoint in the audit log.
func (e *Endpoint) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.Endpoint, ID: e.ID.String()}
}

// Redacted returns the endpoint's changeable fields for the audit log, by their API names and
// without empty ones. Values of secret headers and parameters are masked, and the body is replaced
// by a digest. The rest of a spec holds no secrets, only references.
func (e *Endpoint) Redacted() map[string]any {
	s := &e.Spec
	doc := s.Document()
	doc["url"] = auditlog.URL(s.URL)
	if len(s.Headers) > 0 {
		doc["headers"] = auditlog.Headers(s.Headers)
	}
	if len(s.Query) > 0 {
		doc["query"] = auditlog.Headers(s.Query)
	}
	if s.Body != "" {
		doc["body"] = auditlog.Digest(s.Body)
	}
	e.redactedState(doc)
	return auditlog.Without(doc, "", int64(0), nil)
}

// redactedState adds the changeable state to the document.
func (e *Endpoint) redactedState(doc map[string]any) {
	s := e.State
	doc["archivedAt"], doc["runNowAt"] = instant(e.ArchivedAt), instant(s.OneOffs.LastSlot)
	doc["failureCount"], doc["retryAfter"] = int64(s.FailureCount), instant(s.RetryAfter)
	doc["targetNext"], doc["freshUntil"] = instant(s.TargetNext), instant(s.FreshUntil)
	doc["pausedUntil"], doc["pausedIndefinitely"] = instant(s.PausedUntil), nil
	if s.PausedUntil.Equal(governor.Indefinite) {
		doc["pausedUntil"], doc["pausedIndefinitely"] = nil, true
	}
	doc["pauseReason"] = s.PauseReason
	hints := map[string]any{}
	if h := s.IntervalHint; h != nil {
		hints["interval"] = map[string]any{"intervalMs": h.Interval.Milliseconds(), "expiresAt": instant(h.ExpiresAt), "reason": h.Reason, "author": h.Author}
	}
	if h := s.OneShotHint; h != nil {
		hints["oneShot"] = map[string]any{"at": instant(h.At), "expiresAt": instant(h.ExpiresAt), "reason": h.Reason, "author": h.Author}
	}
	if len(hints) > 0 {
		doc["hints"] = hints
	}
	if v := e.Judged; v != nil {
		doc["noise"] = map[string]any{v.Path: string(v.State)}
	}
}

// instant returns an instant in its JSON form; nil for the zero instant.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
