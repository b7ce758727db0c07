package endpoints

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// checkStored checks stored endpoints against the rest of their tenant: the number of its tag sets
// and its secrets. The error is an [errs.Invalid], after which the caller rolls back.
func (db *States) checkStored(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, changes ...referral) error {
	if slices.ContainsFunc(changes, referral.retagged) {
		sets, err := db.Q.TagSetCount(ctx, tx, tenant)
		if err != nil {
			return fmt.Errorf("counting the tag sets of a tenant: %w", err)
		}
		if err := endpoints.CheckTagSets(int(sets)); err != nil {
			return err
		}
	}
	return db.refer(ctx, tx, tenant, changes...)
}

// retagged reports whether an endpoint has tags that it did not have before.
func (r referral) retagged() bool {
	required, preferred := r.after.Spec.RequiredTags, r.after.Spec.PreferredTags
	if r.after.Archived() || len(required)+len(preferred) == 0 {
		return false
	}
	return r.before == nil || !slices.Equal(r.before.Spec.RequiredTags, required) || !slices.Equal(r.before.Spec.PreferredTags, preferred)
}
