package web

import (
	"time"

	"rubato/client"
	"rubato/internal/endpoints"
)

// forEver stands for a pause without an end among the facts.
const forEver = "for ever"

// facts returns the governor's input for an endpoint, in the form of POST /v1/explain.
func (v *pageRequest) facts(e client.Endpoint) (map[string]any, error) {
	id, err := endpoints.ParseID(e.ID)
	if err != nil {
		return nil, err
	}
	basis, err := v.decided.DecisionBasis(v.r.Context(), v.who.TenantID, id)
	if err != nil {
		return nil, err
	}
	facts := factsOf(e)
	for name, at := range map[string]time.Time{
		"anchor": basis.Anchor, "retryAfter": basis.RetryAfter, "targetNext": basis.TargetNext, "freshUntil": basis.FreshUntil,
	} {
		if !at.IsZero() {
			facts[name] = at
		}
	}
	return facts, nil
}

// factsOf returns the part of the governor's input that the API's endpoint contains.
func factsOf(e client.Endpoint) map[string]any {
	facts := map[string]any{
		"endpointId": e.ID, "timezone": e.Timezone, "dst": e.DST, "catchUp": e.CatchUp, "overlap": e.Overlap, "jitterMs": e.JitterMs, "failureCount": e.FailureCount,
		"cause": "replan",
	}
	for name, value := range map[string]any{
		"baselineCron": e.BaselineCron, "baselineIntervalMs": e.BaselineIntervalMs, "startAt": e.StartAt, "minIntervalMs": e.MinIntervalMs,
		"maxIntervalMs": e.MaxIntervalMs, "pausedUntil": e.PausedUntil,
	} {
		if !isNil(value) {
			facts[name] = value
		}
	}
	hints := map[string]any{}
	if h := e.Hints.Interval; h != nil {
		hints["interval"] = map[string]any{"intervalMs": h.IntervalMs, "expiresAt": h.ExpiresAt, "reason": h.Reason, "outageSince": h.OutageSince}
	}
	if h := e.Hints.OneShot; h != nil {
		hints["oneShot"] = map[string]any{"at": h.At, "expiresAt": h.ExpiresAt, "reason": h.Reason}
	}
	if len(hints) > 0 {
		facts["hints"] = hints
	}
	return facts
}

func isNil(value any) bool {
	switch p := value.(type) {
	case *string:
		return p == nil
	case *int64:
		return p == nil
	case *time.Time:
		return p == nil
	}
	return value == nil
}

func pausedFacts(v *pageRequest, facts map[string]any, now time.Time) error {
	until, err := v.instant("until")
	if err != nil {
		return err
	}
	switch {
	case until == nil:
		facts["pausedUntil"] = forEver
	case !until.After(now):
		return badField("until", "must be in the future")
	default:
		facts["pausedUntil"] = *until
	}
	return nil
}

func hintedFacts(v *pageRequest, facts map[string]any, now time.Time) error {
	interval, err := v.length("interval")
	if err != nil {
		return err
	}
	ttl, err := v.length("ttl")
	if err != nil {
		return err
	}
	hintsIn(facts)["interval"] = map[string]any{"intervalMs": interval, "expiresAt": now.Add(time.Duration(ttl) * time.Millisecond), "reason": v.value("reason")}
	return nil
}

func onceFacts(v *pageRequest, facts map[string]any, now time.Time) error {
	in, err := v.length("in")
	if err != nil {
		return err
	}
	at := now.Add(time.Duration(in) * time.Millisecond)
	hintsIn(facts)["oneShot"] = map[string]any{"at": at, "expiresAt": at.Add(onceLife), "reason": v.value("reason")}
	return nil
}

// hintsIn returns the hints among the facts, which are there afterwards.
func hintsIn(facts map[string]any) map[string]any {
	hints, _ := facts["hints"].(map[string]any)
	if hints == nil {
		hints = map[string]any{}
		facts["hints"] = hints
	}
	return hints
}
