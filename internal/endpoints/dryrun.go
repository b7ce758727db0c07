package endpoints

import (
	"context"
	"slices"
	"time"
)

// foresee fills in the outcome of a dry run.
func (s *step) foresee(i int, spec Spec, now time.Time) {
	out := &s.out[i]
	if out.Done = Created; len(out.Changes) > 0 {
		out.Done = Updated
	}
	would := *out.Endpoint
	would.Spec, would.Cron = spec, nil
	out.Warnings = would.Warnings(now)
	if list := spec.References(); len(list) > 0 {
		s.references[i] = list
	}
}

// checkSecrets fails those of a dry run that refer to secrets which do not exist, as the store would.
func (s *step) checkSecrets(ctx context.Context) error {
	var names []string
	for _, list := range s.references {
		for _, r := range list {
			names = append(names, r.Secret)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	known, err := s.bulk.store.KnownSecrets(ctx, s.by.TenantID, slices.Compact(names))
	if err != nil {
		return err
	}
	for i, list := range s.references {
		if err := UnknownSecrets(list, known); err != nil {
			s.refuse(i, err)
		}
	}
	return nil
}
