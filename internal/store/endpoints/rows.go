package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unique"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// lockSlack is added to the execution limit for the duration of a lock.
const lockSlack = 5 * time.Second

// endpointOf decodes a row. A part that cannot be decoded is left zero, and the endpoint has a
// Fault.
func endpointOf(row *dbsqlc.Endpoint) *endpoints.Endpoint {
	spec, err := specOf(row)
	return &endpoints.Endpoint{
		ID:         row.ID,
		TenantID:   row.TenantID,
		Version:    row.Version,
		CreatedAt:  row.CreatedAt,
		UpdatedAt:  row.UpdatedAt,
		ArchivedAt: pg.OrZero(row.ArchivedAt),
		Spec:       spec,
		Fault:      unreadable(row.ID, err),
	}
}

// unreadable returns the user-facing error for a configuration that cannot be decoded. It names the
// field if the decoder does. It returns nil if cause is nil.
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

// specOf decodes the configuration of a row. On an error it also returns the decodable part.
func specOf(row *dbsqlc.Endpoint) (s endpoints.Spec, err error) {
	if err = s.UnmarshalJSON(row.Spec); err != nil {
		err = fmt.Errorf("decode the stored configuration of endpoint %s: %w", endpoints.ID(row.ID), err)
	}
	share(&s.Method, &s.BaselineCron, &s.Timezone, &s.Success)
	share(&s.DST.Gap)
	share(&s.DST.Overlap)
	share(&s.CatchUp)
	share(&s.Overlap)
	share(&s.Planner)
	return s, err
}

// share interns strings that many endpoints have in common, such as methods and time zones. This
// saves memory in the cache of configurations.
func share[T ~string](texts ...*T) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}

// insertOf returns the insert parameters of an endpoint.
func insertOf(e *endpoints.Endpoint) dbsqlc.EndpointInsertParams {
	return dbsqlc.EndpointInsertParams{
		ID:         e.ID,
		TenantID:   e.TenantID,
		Version:    e.Version,
		CreatedAt:  e.CreatedAt,
		UpdatedAt:  e.UpdatedAt,
		ArchivedAt: pg.Optional(e.ArchivedAt),
		Spec:       documentOf(&e.Spec),
	}
}

// updateOf returns the update parameters of an endpoint. oldVersion is the expected version of the
// compare-and-set.
func updateOf(e *endpoints.Endpoint, oldVersion int64) dbsqlc.EndpointUpdateParams {
	return dbsqlc.EndpointUpdateParams{
		ID:         e.ID,
		TenantID:   e.TenantID,
		OldVersion: oldVersion,
		Version:    e.Version,
		UpdatedAt:  e.UpdatedAt,
		ArchivedAt: pg.Optional(e.ArchivedAt),
		Spec:       documentOf(&e.Spec),
	}
}

// documentOf encodes a spec as JSON. It cannot fail because every field of a spec is valid JSON.
func documentOf(s *endpoints.Spec) json.RawMessage {
	raw, err := json.Marshal(s.Document())
	if err != nil {
		panic(err)
	}
	return raw
}

// tagsOf returns the tags of a configuration as the SQL function tag_set_number reads them.
func tagsOf(s endpoints.Spec) json.RawMessage {
	raw, err := json.Marshal(struct {
		Required  []string `json:"requiredTags,omitempty"`
		Preferred []string `json:"preferredTags,omitempty"`
	}{s.RequiredTags, s.PreferredTags})
	if err != nil {
		panic(err)
	}
	return raw
}

func lockMs(s endpoints.Spec) int32 {
	return int32((s.MaxExecutionTime + lockSlack).Milliseconds())
}
