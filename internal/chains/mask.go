package chains

import (
	"fmt"
	"maps"
	"slices"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
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

// unmasked returns the definition with stored values in place of masked headers; see
// [endpoints.Unmask]. A mask stands for the value of the same header of the same step. stored is
// nil for a new chain.
func (d Definition) unmasked(stored *Definition) (_ Definition, bad []errs.Field) {
	d = d.clone()
	d.requests(func(of owner, r *Request) {
		headers, faults := endpoints.Unmask(r.Headers, stored.headers(of), func(name string) string { return of.field + "." + name })
		r.Headers, bad = headers, append(bad, faults...)
	})
	return d, bad
}

// headers returns the headers of a step or a compensation; nil: there are none.
func (d *Definition) headers(of owner) (found map[string]string) {
	if d == nil {
		return nil
	}
	d.requests(func(other owner, r *Request) {
		if other.step == of.step && other.undo == of.undo {
			found = r.Headers
		}
	})
	return found
}

// Warnings returns warnings about headers that look like secrets but are literals.
func (d *Definition) Warnings() (list []errs.Field) {
	d.requests(func(of owner, r *Request) { list = append(list, endpoints.SecretsInClear(of.field, r.Headers)...) })
	return list
}
