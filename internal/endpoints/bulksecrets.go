package endpoints

import (
	"context"
	"errors"
	"maps"
	"slices"

	"rubato/internal/errs"
)

// refer collects the secret references of an upsert, so that one query looks up those of the whole
// batch.
func (r *upsertBatch) refer(i int, spec Spec) {
	if list := spec.References(); len(list) > 0 {
		r.references[i] = list
	}
}

// checkSecrets fails the upserts that refer to unknown secrets, as the store would. It adds these
// fields to the other faults of the upsert.
func (r *upsertBatch) checkSecrets(ctx context.Context) error {
	names := secretsOf(slices.Concat(slices.Collect(maps.Values(r.references))...))
	if len(names) == 0 {
		return nil
	}
	known, err := r.bulk.store.KnownSecrets(ctx, r.by.TenantID, names)
	if err != nil {
		return err
	}
	for i, list := range r.references {
		unknown := UnknownSecrets(list, known)
		switch out := &r.out[i]; {
		case unknown == nil:
		case out.Err == nil:
			r.refuse(i, unknown)
		default:
			out.Err = alsoNaming(out.Err, errs.FieldsOf(unknown))
		}
	}
	return nil
}

// alsoNaming returns a copy of an error with more bad fields, without duplicates. An error without
// fields is returned as it is.
func alsoNaming(err error, more []errs.Field) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	named := errs.PathsOf(e.Fields)
	more = slices.DeleteFunc(more, func(f errs.Field) bool { return named.Cover(f.Field) })
	all := *e
	all.Fields = slices.Concat(e.Fields, more)
	return &all
}
