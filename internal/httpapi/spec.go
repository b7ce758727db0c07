package httpapi

import (
	"cmp"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

// specOf returns what a user configured, with the default of everything that was not given. It does not judge: values that the
// domain cannot hold become ones that it refuses.
func specOf(in api.EndpointSpec) endpoints.Spec {
	s := endpoints.Defaults()
	s.Name = in.Name
	s.Key = text(in.Key)
	set(&s.Description, in.Description)
	set(&s.Labels, in.Labels)

	s.URL = in.URL
	setWord(&s.Method, in.Method)
	set(&s.Headers, in.Headers)
	set(&s.Body, in.Body)

	timingOf(&s, api.ExplainInput{
		BaselineCron: in.BaselineCron, BaselineIntervalMs: in.BaselineIntervalMs, Timezone: in.Timezone, DST: in.DST,
		StartAt: in.StartAt, CatchUp: in.CatchUp, MinIntervalMs: in.MinIntervalMs, MaxIntervalMs: in.MaxIntervalMs, JitterMs: in.JitterMs,
	})

	s.Timeout = givenSpan(in.TimeoutMs)
	setSpan(&s.MaxExecutionTime, in.MaxExecutionTimeMs)
	setInt(&s.MaxResponseKB, in.MaxResponseKb)
	setInt(&s.FollowRedirects, in.FollowRedirects)
	set(&s.Success, in.Success)
	if r := in.Retry; r != nil {
		setInt(&s.Retry.MaxAttempts, r.MaxAttempts)
		setSpan(&s.Retry.Backoff, r.BackoffMs)
		setSpan(&s.Retry.MaxBackoff, r.MaxBackoffMs)
	}
	set(&s.Idempotent, in.Idempotent)
	setDelivery(&s, in)
	return s
}

// timingOf fills in the fields that decide when an endpoint runs; a registration and a what-if share them.
func timingOf(s *endpoints.Spec, in api.ExplainInput) {
	s.BaselineCron = text(in.BaselineCron)
	s.BaselineInterval = givenSpan(in.BaselineIntervalMs)
	if in.Timezone != nil {
		s.Timezone = text(in.Timezone)
	}
	if d := in.DST; d != nil {
		setWord(&s.DST.Gap, d.Gap)
		setWord(&s.DST.Overlap, d.Overlap)
	}
	s.StartAt = given(in.StartAt)
	setWord(&s.CatchUp, in.CatchUp)
	s.MinInterval = givenSpan(in.MinIntervalMs)
	s.MaxInterval = givenSpan(in.MaxIntervalMs)
	setSpan(&s.Jitter, in.JitterMs)
}

// documentOf is the inverse of specOf: the spec as its user would have to write it.
func documentOf(s endpoints.Spec) api.EndpointSpec {
	out := api.EndpointSpec{
		Name: s.Name, Key: optional(s.Key), Description: optional(s.Description),
		URL: s.URL, Method: new(api.Method(s.Method)), Body: optional(s.Body),
		BaselineCron: optional(s.BaselineCron), BaselineIntervalMs: optionalMs(s.BaselineInterval),
		Timezone:      &s.Timezone,
		DST:           &api.DSTInput{Gap: new(api.DSTGap(s.DST.Gap)), Overlap: new(api.DSTOverlap(s.DST.Overlap))},
		StartAt:       shown(s.StartAt),
		CatchUp:       new(api.CatchUp(s.CatchUp)),
		MinIntervalMs: optionalMs(s.MinInterval), MaxIntervalMs: optionalMs(s.MaxInterval),
		JitterMs: new(s.Jitter.Milliseconds()), TimeoutMs: new(s.Timeout.Milliseconds()),
		MaxExecutionTimeMs: new(s.MaxExecutionTime.Milliseconds()),
		MaxResponseKb:      new(int64(s.MaxResponseKB)), FollowRedirects: new(int64(s.FollowRedirects)),
		Success: &s.Success,
		Retry: &api.RetryInput{
			MaxAttempts: new(int64(s.Retry.MaxAttempts)), BackoffMs: new(s.Retry.Backoff.Milliseconds()),
			MaxBackoffMs: new(s.Retry.MaxBackoff.Milliseconds()),
		},
		Idempotent: &s.Idempotent,
	}
	if len(s.Labels) > 0 {
		out.Labels = &s.Labels
	}
	if len(s.Headers) > 0 {
		out.Headers = &s.Headers
	}
	documentDelivery(&out, s)
	return out
}

// text returns a text whose absence the domain writes as "". Who does give an empty one gets a blank, which the domain refuses.
func text(given *string) string {
	if given == nil {
		return ""
	}
	return cmp.Or(*given, " ")
}

func set[T any](field, given *T) {
	if given != nil {
		*field = *given
	}
}

// setWord is set for a word of an enumeration, which the domain and the contract have each their own type for.
func setWord[D, C ~string](field *D, given *C) {
	if given != nil {
		*field = D(*given)
	}
}

func setSpan(field *time.Duration, ms *int64) {
	if ms != nil {
		*field = span(*ms)
	}
}

func setInt(field *int, given *int64) {
	if given != nil {
		*field = int(*given)
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func optionalMs(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(d.Milliseconds())
}
