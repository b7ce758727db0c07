package endpoints

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// BulkStore keeps many endpoints at once. Every method is one transaction, scoped by tenant.
type BulkStore interface {
	// Find returns the endpoints in service that have one of the IDs or keys, in no order, and the database's time.
	Find(ctx context.Context, tenant [16]byte, ids []ID, keys []string) ([]*Endpoint, time.Time, error)
	// KnownSecrets returns which of the secrets a tenant has.
	KnownSecrets(ctx context.Context, tenant [16]byte, names []string) ([]string, error)
	// CreateMany stores the endpoints that create returns for the database's time, each with the decision that plans its first
	// run. It leaves out those whose key somebody has taken, and returns their IDs. The audit log tells of the act for each.
	CreateMany(ctx context.Context, act auditlog.Act, create func(now time.Time) ([]New, error)) (taken []ID, err error)
	// ChangeMany is [Store].Change for many. An endpoint whose change returns keep false stays as it is; one that is no longer in
	// service is not offered.
	ChangeMany(ctx context.Context, act auditlog.Act, ids []ID, change func(e *Endpoint, now time.Time) (planned *Recorded, keep bool)) error
}

// New is an endpoint that is to be stored, and the decision that plans its first run.
type New struct {
	Endpoint *Endpoint
	Planned  Recorded
}

// Bulk creates and replaces many endpoints at once. It is safe for concurrent use.
type Bulk struct {
	store    BulkStore
	validate *Validator
}

// NewBulk returns a Bulk over a store, with targets to judge URLs and headers.
func NewBulk(store BulkStore, targets Targets) *Bulk {
	return &Bulk{store: store, validate: NewValidator(targets)}
}

// UnknownSecrets is [UnknownSecrets] of what a spec refers to and a tenant does not have.
func (b *Bulk) UnknownSecrets(ctx context.Context, by Actor, spec Spec) error {
	list := spec.References()
	if len(list) == 0 {
		return nil
	}
	known, err := b.store.KnownSecrets(ctx, by.TenantID, secretsOf(list))
	if err != nil {
		return err
	}
	return UnknownSecrets(list, known)
}

// Upsert asks for one endpoint to be as it says: the one in service that has the ID, else the one that has the key, else a new one.
type Upsert struct {
	ID  ID     // zero: not named by ID
	Key string // empty: not named by key
	// Want returns what the endpoint is to be. stored is what is there, nil where there is nothing. It may be called several times,
	// also under the endpoint's lock, so it depends on stored alone. Its error fails this one alone; the spec beside it is what could be
	// read of what is asked for.
	Want func(stored *Endpoint) (Spec, error)
}

// Mode says how upserts are carried out.
type Mode struct {
	DryRun bool // check and plan, and write nothing
	Spread bool // give new endpoints with an interval a phase of their own, rather than a first run at once
	// DryRunKeys is what the dry runs before this one would have left, where they belong together; nil: they do not.
	DryRunKeys *DryRunKeys
}

// Done is what became of an upsert.
type Done string

// What may become of an upsert. The empty one is what was not reached before an error.
const (
	Created   Done = "created"
	Updated   Done = "updated"
	Unchanged Done = "unchanged"
	Failed    Done = "failed"
)

// Outcome is the answer to an upsert.
type Outcome struct {
	Done     Done
	Endpoint *Endpoint // as it is, or would be in a dry run; nil where there is none
	Changes  []string  // fields that differ from what was stored, where it was updated
	Warnings []errs.Field
	Err      error // why it failed
	tries    int
}
