package endpoints

import (
	"context"
	"errors"
	"maps"
	"slices"

	"rubato/internal/errs"
)

// refer notes the references of an upsert, to be looked up with those of the others.
func (r *round) refer(i int, spec Spec) {
	if list := spec.References(); len(list) > 0 {
		r.references[i] = list
	}
}

// checkSecrets fails the upserts whose noted references lead to secrets that do not exist, as the store would, and names these beside
// whatever else is wrong.
func (r *round) checkSecrets(ctx context.Context) error {
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

// alsoNaming returns an error about bad fields that names more of them, but for those that it names already; any other as it is.
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
