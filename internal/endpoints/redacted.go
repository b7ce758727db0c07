package endpoints

import (
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/governor"
)

// Object returns the endpoint as the audit log names it.
func (e *Endpoint) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.Endpoint, ID: e.ID.String()}
}

// Redacted returns what users can change of the endpoint, by the names of the API, as the audit log keeps it: without what is absent,
// with the values of secret headers and parameters hidden, and with a digest in place of the body.
func (e *Endpoint) Redacted() map[string]any {
	s := e.Spec
	doc := map[string]any{
		"name": s.Name, "key": s.Key, "description": s.Description, "url": auditlog.URL(s.URL), "method": s.Method, "body": "",
		"baselineCron": s.BaselineCron, "baselineIntervalMs": s.BaselineInterval.Milliseconds(), "timezone": s.Timezone,
		"dst":     map[string]any{"gap": string(s.DST.Gap), "overlap": string(s.DST.Overlap)},
		"startAt": instant(s.StartAt), "catchUp": string(s.CatchUp),
		"minIntervalMs": s.MinInterval.Milliseconds(), "maxIntervalMs": s.MaxInterval.Milliseconds(), "jitterMs": s.Jitter.Milliseconds(),
		"timeoutMs": s.Timeout.Milliseconds(), "maxExecutionTimeMs": s.MaxExecutionTime.Milliseconds(),
		"maxResponseKb": s.MaxResponseKB, "followRedirects": s.FollowRedirects, "success": s.Success, "idempotent": s.Idempotent,
		"sign": s.Sign, "responseTailKb": s.ResponseTailKB, "conditional": s.Conditional, "planner": string(s.Planner),
		"retry": map[string]any{
			"maxAttempts": s.Retry.MaxAttempts, "backoffMs": s.Retry.Backoff.Milliseconds(), "maxBackoffMs": s.Retry.MaxBackoff.Milliseconds(),
		},
	}
	if len(s.Labels) > 0 {
		doc["labels"] = s.Labels
	}
	if len(s.Headers) > 0 {
		doc["headers"] = auditlog.Headers(s.Headers)
	}
	s.redactedDelivery(doc)
	if s.Body != "" {
		doc["body"] = auditlog.Digest(s.Body)
	}
	e.redactedState(doc)
	return auditlog.Without(doc, "", int64(0), nil)
}

// redactedDelivery adds how calls are shaped and judged. Secrets stand in none of it, only references to them.
func (s Spec) redactedDelivery(doc map[string]any) {
	if len(s.Query) > 0 {
		doc["query"] = auditlog.Headers(s.Query)
	}
	if s.Auth != nil {
		doc["auth"] = s.Auth
	}
	if s.TLS != nil {
		doc["tls"] = s.TLS
	}
	if len(s.SuccessRules) > 0 {
		doc["successRules"] = s.SuccessRules
	}
	if len(s.Redact) > 0 {
		doc["redact"] = s.Redact
	}
}

// redactedState adds what is done to an endpoint beside its configuration.
func (e *Endpoint) redactedState(doc map[string]any) {
	s := e.State
	doc["archivedAt"], doc["runNowAt"] = instant(e.ArchivedAt), instant(s.OneOffs.LastSlot)
	doc["failureCount"], doc["retryAfter"] = int64(s.FailureCount), instant(s.RetryAfter)
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
}

// instant returns an instant as JSON writes it, nil where there is none.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
