package httpapi

import (
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// maxLineErrors bounds the bad fields of one line: the results of an import wait in memory until
// they are read.
const maxLineErrors = 20

// importLine reads a line of an import. What cannot be done with it is an error of its Want.
func (s *Server) importLine(text []byte) endpoints.Upsert {
	in, err := readInput(text, s.rules.importLine)
	if err != nil {
		return unusable(endpoints.Spec{}, err)
	}
	var u endpoints.Upsert
	if named, given := in.value["id"].(string); given { // Absent or null: not named.
		if u.ID, err = endpoints.ParseID(named); err != nil {
			in.malformed = append(in.malformed, errs.Field{
				Field:   "id",
				Code:    "invalid_id",
				Message: err.Error(),
			})
		}
	}
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return unusable(spec, fmt.Errorf("reading a line: %w", err))
	}
	if in.bad() {
		return unusable(spec, in.refuse(s.endpoints.Check(spec)))
	}
	u.Key = spec.Key
	u.Want = func(stored *endpoints.Endpoint) (endpoints.Spec, error) { return s.unmasked(spec, stored) }
	return u
}

// unusable asks for nothing, because of an error. spec is what could be read.
func unusable(spec endpoints.Spec, err error) endpoints.Upsert {
	return endpoints.Upsert{Want: func(*endpoints.Endpoint) (endpoints.Spec, error) { return spec, err }}
}

// unmasked returns a spec with stored values in place of masked headers. A mask without a stored
// value is refused, together with whatever else is wrong.
func (s *Server) unmasked(spec endpoints.Spec, stored *endpoints.Endpoint) (endpoints.Spec, error) {
	var known map[string]string
	if stored != nil {
		known = stored.Spec.Headers
	}
	var bad []errs.Field
	spec.Headers, bad = endpoints.Unmask(spec.Headers, known, func(name string) string { return join("headers", name) })
	if len(bad) > 0 {
		bad = append(bad, errs.FieldsOf(s.endpoints.Check(spec))...)
	}
	return spec, errs.InvalidFields(bad)
}

// lineError returns the public error of a failed line.
func lineError(err error) *api.LineError {
	p := problemOf(err)
	e := &api.LineError{
		Code:   p.Code,
		Detail: p.Detail,
		Errors: p.Errors,
	}
	if e.Errors != nil && len(*e.Errors) > maxLineErrors {
		e.Detail += fmt.Sprintf(" (the first %d)", maxLineErrors)
		e.Errors = new((*e.Errors)[:maxLineErrors])
	}
	return e
}

// lineResult returns the answer to a line.
func lineResult(line int, u endpoints.Upsert, o endpoints.Outcome, dry bool) api.ImportResult {
	r := api.ImportResult{
		Line:   int32(line),
		Status: api.ImportStatus(o.Done),
		Key:    optional(u.Key),
	}
	if dry && (o.Done == endpoints.Created || o.Done == endpoints.Updated) {
		r.Status = api.ImportStatusValid
	}
	if o.Endpoint != nil && (!dry || o.Done != endpoints.Created) {
		r.ID = new(o.Endpoint.ID.String())
	}
	if len(o.Changes) > 0 {
		r.Changes = &o.Changes
	}
	if len(o.Warnings) > 0 {
		r.Warnings = new(fieldErrors(o.Warnings))
	}
	if o.Err != nil {
		r.Error = lineError(o.Err)
	}
	return r
}
