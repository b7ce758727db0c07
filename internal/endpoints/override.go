package endpoints

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Override replaces parts of the endpoint's request for one run.
type Override struct {
	// Body is nil to keep that of the endpoint.
	Body *string `json:"body,omitempty"`
	// Headers are merged into those of the endpoint, and win on equal names.
	Headers map[string]string `json:"headers,omitempty"`
	// Query is merged like Headers.
	Query map[string]string `json:"query,omitempty"`
	// Whole replaces the whole request before the other fields apply; nil: it is that of the
	// endpoint.
	Whole *WholeRequest `json:"whole,omitempty"`
	// SentKey is the Idempotency-Key of the request; empty: that of the run.
	SentKey string `json:"sentKey,omitempty"`
	// DueFor is the due time that templates use as run.scheduledFor, because the run repeats that of
	// this due time; zero: that of the run.
	DueFor time.Time `json:"dueFor,omitzero"`
}

// Empty reports whether the override changes nothing.
func (o Override) Empty() bool {
	return o.Body == nil && len(o.Headers) == 0 && len(o.Query) == 0 && o.Whole == nil && o.SentKey == "" && o.DueFor.IsZero()
}

// Apply returns a copy of the spec with the override applied.
func (o Override) Apply(s Spec) Spec {
	if o.Whole != nil {
		s = o.Whole.onto(s)
	}
	if o.Body != nil {
		s.Body = *o.Body
	}
	s.Headers, s.Query = maps.Clone(s.Headers), maps.Clone(s.Query)
	if s.Headers == nil {
		s.Headers = map[string]string{}
	}
	for name, value := range o.Headers {
		delete(s.Headers, s.headerNamed(name))
		s.Headers[name] = value
	}
	if s.Query == nil {
		s.Query = map[string]string{}
	}
	maps.Copy(s.Query, o.Query)
	return s
}

// changes reports whether the override sets the field of a spec with this path.
func (o Override) changes(field string) bool {
	if o.Whole != nil && replaced(field) {
		return true
	}
	if field == "body" {
		return o.Body != nil
	}
	for prefix, given := range map[string]map[string]string{"headers": o.Headers, "query": o.Query} {
		name, one := strings.CutPrefix(field, prefix+".")
		if _, there := given[name]; one && there || field == prefix && len(given) > 0 {
			return true
		}
	}
	return false
}

// References returns the secrets that the override refers to when it is applied to a spec.
func (o Override) References(s Spec) []Reference {
	merged := o.Apply(s)
	return slices.DeleteFunc(merged.References(), func(r Reference) bool { return !o.changes(r.Field) })
}

// ParseOverride parses a stored override. Without a text it is empty.
func ParseOverride(text json.RawMessage) (o Override, err error) {
	if text != nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}
