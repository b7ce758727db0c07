package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unique"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/schedule"
	"rubato/internal/store/dbsqlc"
)

// lockSlack is what a lock must hold beyond the execution limit.
const lockSlack = 5 * time.Second

// endpointOf decodes a row. If a part of it cannot be decoded, the endpoint lacks that part and has a Fault.
func endpointOf(row *dbsqlc.Endpoint) *endpoints.Endpoint {
	spec, err := specOf(row)
	return &endpoints.Endpoint{
		ID: row.ID, TenantID: row.TenantID, Version: row.Version,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, ArchivedAt: orZero(row.ArchivedAt), Spec: spec, Fault: unreadable(row.ID, err),
	}
}

// unreadable words that the configuration of an endpoint cannot be decoded, and names the field if the decoder does; nil for no cause.
func unreadable(id endpoints.ID, cause error) error {
	if cause == nil {
		return nil
	}
	field := ""
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](cause); ok && wrong.Field != "" {
		field = fmt.Sprintf(", because %s has the wrong type", wrong.Field)
	}
	return errs.Wrap(cause, errs.Unreadable, fmt.Sprintf("the stored configuration of endpoint %s cannot be read%s; "+
		"run the release of the server that wrote it, or delete the endpoint and register it again", id, field))
}

// specOf decodes the configuration of a row. Beside an error it returns what can be decoded.
func specOf(row *dbsqlc.Endpoint) (endpoints.Spec, error) {
	labels, badLabels := textMap(row.Labels)
	headers, badHeaders := textMap(row.Headers)
	s := endpoints.Spec{
		Name: row.Name, Key: orZero(row.Key), Description: row.Description, Labels: labels,
		URL: row.URL, Method: alike(row.Method), Headers: headers, Body: row.Body,
		BaselineCron: alike(row.BaselineCron), BaselineInterval: ms(row.BaselineIntervalMs), Timezone: alike(row.Timezone),
		DST:     endpoints.DST{Gap: schedule.GapPolicy(alike(row.DstGap)), Overlap: schedule.OverlapPolicy(alike(row.DstOverlap))},
		StartAt: orZero(row.StartAt), CatchUp: governor.CatchUp(alike(row.CatchUp)),
		MinInterval: ms(row.MinIntervalMs), MaxInterval: ms(row.MaxIntervalMs), Jitter: ms(row.JitterMs),
		Timeout: ms(row.TimeoutMs), MaxExecutionTime: ms(row.MaxExecutionTimeMs),
		MaxResponseKB: int(row.MaxResponseKb), FollowRedirects: int(row.FollowRedirects), Success: alike(row.Success),
		Retry: endpoints.Retry{
			MaxAttempts: int(row.RetryMaxAttempts), Backoff: ms(row.RetryBackoffMs), MaxBackoff: ms(row.RetryMaxBackoffMs),
		},
		Idempotent: row.Idempotent, Planner: endpoints.Authority(alike(row.Planner)),
	}
	if err := errors.Join(badLabels, badHeaders, readDelivery(row.Delivery, &s)); err != nil {
		return s, fmt.Errorf("decode the stored configuration of endpoint %s: %w", endpoints.ID(row.ID), err)
	}
	return s, nil
}

// alike returns a text that many endpoints have word for word, such as a method: those that are read at about the same time share it.
func alike(text string) string { return unique.Make(text).Value() }

// rowOf is the inverse of endpointOf.
func rowOf(e *endpoints.Endpoint) dbsqlc.Endpoint {
	s := e.Spec
	return dbsqlc.Endpoint{
		ID: e.ID, TenantID: e.TenantID, Version: e.Version,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, ArchivedAt: optional(e.ArchivedAt),
		Key: optionalText(s.Key), Name: s.Name, Description: s.Description, Labels: object(s.Labels),
		URL: s.URL, Method: s.Method, Headers: object(s.Headers), Body: s.Body,
		BaselineCron: s.BaselineCron, BaselineIntervalMs: s.BaselineInterval.Milliseconds(), Timezone: s.Timezone,
		DstGap: string(s.DST.Gap), DstOverlap: string(s.DST.Overlap),
		StartAt: optional(s.StartAt), CatchUp: string(s.CatchUp),
		MinIntervalMs: s.MinInterval.Milliseconds(), MaxIntervalMs: s.MaxInterval.Milliseconds(), JitterMs: s.Jitter.Milliseconds(),
		TimeoutMs: s.Timeout.Milliseconds(), MaxExecutionTimeMs: s.MaxExecutionTime.Milliseconds(),
		MaxResponseKb: int32(s.MaxResponseKB), FollowRedirects: int32(s.FollowRedirects), Success: s.Success, //nolint:gosec // Validated.
		RetryMaxAttempts: int32(s.Retry.MaxAttempts), RetryBackoffMs: s.Retry.Backoff.Milliseconds(), //nolint:gosec // Validated.
		RetryMaxBackoffMs: s.Retry.MaxBackoff.Milliseconds(), Idempotent: s.Idempotent,
		Delivery: deliveryOf(s), Planner: string(s.Planner),
	}
}

// object encodes a map of texts, which cannot fail.
func object(m map[string]string) json.RawMessage {
	if m == nil {
		return json.RawMessage("{}")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func lockMs(s endpoints.Spec) int32 {
	return int32((s.MaxExecutionTime + lockSlack).Milliseconds()) //nolint:gosec // At most 30 min.
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// updateOf makes the parameters of an update out of a row; sqlc knows only that the column types are the same.
func updateOf(row dbsqlc.Endpoint, oldVersion int64) dbsqlc.EndpointUpdateParams {
	return dbsqlc.EndpointUpdateParams{
		ID: row.ID, TenantID: row.TenantID, OldVersion: oldVersion, Version: row.Version, UpdatedAt: row.UpdatedAt,
		ArchivedAt: row.ArchivedAt, Key: row.Key, Name: row.Name, Description: row.Description, Labels: row.Labels,
		URL: row.URL, Method: row.Method, Headers: row.Headers, Body: row.Body, BaselineCron: row.BaselineCron,
		BaselineIntervalMs: row.BaselineIntervalMs, Timezone: row.Timezone, DstGap: row.DstGap, DstOverlap: row.DstOverlap,
		StartAt: row.StartAt, CatchUp: row.CatchUp, MinIntervalMs: row.MinIntervalMs, MaxIntervalMs: row.MaxIntervalMs,
		JitterMs: row.JitterMs, TimeoutMs: row.TimeoutMs, MaxExecutionTimeMs: row.MaxExecutionTimeMs,
		MaxResponseKb: row.MaxResponseKb, FollowRedirects: row.FollowRedirects, Success: row.Success,
		RetryMaxAttempts: row.RetryMaxAttempts, RetryBackoffMs: row.RetryBackoffMs, RetryMaxBackoffMs: row.RetryMaxBackoffMs,
		Idempotent: row.Idempotent, Delivery: row.Delivery, Planner: row.Planner,
	}
}
