package chains

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// owner is the step or the compensation that a request belongs to.
type owner struct {
	step string
	undo bool
	// field is the place of the headers in the definition.
	field string
}

// requests calls visit for every request of the definition that has headers.
func (d *Definition) requests(visit func(of owner, r *Request)) {
	one := func(of owner, r *Request) {
		if r != nil && len(r.Headers) > 0 {
			visit(of, r)
		}
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		one(owner{s.Name, false, fmt.Sprintf("steps.%d.request.headers", i)}, s.Request)
		if s.Compensation != nil {
			one(owner{s.Name, true, fmt.Sprintf("steps.%d.compensation.request.headers", i)}, s.Compensation.Request)
		}
	}
}

// clone returns a copy that shares no header with d.
func (d Definition) clone() Definition {
	d.Steps = slices.Clone(d.Steps)
	for i := range d.Steps {
		s := &d.Steps[i]
		s.Request = s.Request.clone()
		if s.Compensation != nil {
			undo := *s.Compensation
			undo.Request = undo.Request.clone()
			s.Compensation = &undo
		}
	}
	return d
}

func (r *Request) clone() *Request {
	if r == nil {
		return nil
	}
	c := *r
	c.Headers = maps.Clone(r.Headers)
	return &c
}

// Shown returns the definition as answers show it: with the mask in place of the values of headers
// with secret names. Only workers see those values.
func (d Definition) Shown() Definition {
	d = d.clone()
	d.requests(func(_ owner, r *Request) {
		for name := range r.Headers {
			if auditlog.Secret(name) {
				r.Headers[name] = auditlog.Mask
			}
		}
	})
	return d
}

// unmasked returns the definition with stored values in place of masked headers, so that a
// definition can be read, edited and stored again. A mask stands for the value of the same header
// of the same step. The faults name each mask without such a value. stored is nil for a new chain.
func (d Definition) unmasked(stored *Definition) (_ Definition, bad []errs.Field) {
	d = d.clone()
	d.requests(func(of owner, r *Request) {
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			if r.Headers[name] != auditlog.Mask {
				continue
			}
			value, known := stored.header(of, name)
			if known {
				r.Headers[name] = value
				continue
			}
			bad = append(bad, errs.Field{
				Field: of.field + "." + name, Code: "masked_value",
				Message: "is the mask that answers show in place of a secret, and no value is stored that it could stand for; send the real value",
			})
		}
	})
	return d, bad
}

// header returns the value of a secret header of a step or a compensation.
func (d *Definition) header(of owner, name string) (value string, known bool) {
	if d == nil || !auditlog.Secret(name) {
		return "", false
	}
	d.requests(func(other owner, r *Request) {
		if other.step == of.step && other.undo == of.undo {
			value, known = r.Headers[name]
		}
	})
	return value, known
}

// Warnings returns warnings about headers that look like secrets but are literals. They are masked
// in answers, but the database, its backups and replicas hold them in clear.
func (d *Definition) Warnings() (list []errs.Field) {
	d.requests(func(of owner, r *Request) {
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			if value := r.Headers[name]; auditlog.Secret(name) && value != "" && !strings.Contains(value, "{{") {
				list = append(list, errs.Field{
					Field: of.field + "." + name, Code: "secret_in_clear",
					Message: `is stored as it is; keep it with PUT /v1/secrets/{name} and write {{secret "name"}} here`,
				})
			}
		}
	})
	return list
}
