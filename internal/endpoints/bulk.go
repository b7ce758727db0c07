package endpoints

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// BulkStore reads and writes many endpoints at once. Every method is one transaction, scoped by
// tenant.
type BulkStore interface {
	// Find returns the endpoints in service that match one of the IDs or keys, unordered, and the
	// database's time.
	Find(ctx context.Context, tenant [16]byte, ids []ID, keys []string) ([]*Endpoint, time.Time, error)
	// KnownSecrets returns the names of the given secrets that exist for a tenant.
	KnownSecrets(ctx context.Context, tenant [16]byte, names []string) ([]string, error)
	// CreateMany stores the endpoints that create returns for the database's time, each with the
	// decision that plans its first run. It skips endpoints whose key is already in use, and
	// returns their IDs. Each creation is recorded in the audit log.
	CreateMany(ctx context.Context, act auditlog.Act, create func(now time.Time) ([]New, error)) (taken []ID, err error)
	// ChangeMany is [Store].Change for many endpoints. If change returns keep false, that endpoint
	// stays as it is. Archived endpoints are skipped.
	ChangeMany(ctx context.Context, act auditlog.Act, ids []ID, change func(e *Endpoint, now time.Time) (planned *Recorded, keep bool)) error
}

// New is an endpoint to store, and the decision that plans its first run.
type New struct {
	Endpoint *Endpoint
	Planned  Recorded
}

// Bulk creates and replaces many endpoints at once. It is safe for concurrent use.
type Bulk struct {
	store    BulkStore
	validate *Validator
}

// NewBulk returns a Bulk over a store. targets judges URLs and headers.
func NewBulk(store BulkStore, targets Targets) *Bulk {
	return &Bulk{store: store, validate: NewValidator(targets)}
}

// UnknownSecrets checks the references of a spec against the secrets of a tenant; see
// [UnknownSecrets].
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

// Upsert is the request to create or replace one endpoint. It selects the endpoint in service by
// ID, then by key. If neither matches, it creates a new one.
type Upsert struct {
	// ID is zero if the endpoint is not selected by ID.
	ID ID
	// Key is empty if the endpoint is not selected by key.
	Key string
	// Want returns the requested spec. stored is the current endpoint, or nil. It may be called
	// several times, also under the endpoint's lock, so it must depend on stored alone. An error
	// fails only this upsert; the spec beside it is the readable part of the request.
	Want func(stored *Endpoint) (Spec, error)
}

// Mode controls how upserts are carried out.
type Mode struct {
	// DryRun checks and plans without writing.
	DryRun bool
	// Spread gives new interval endpoints a phase of their own instead of an immediate first run.
	Spread bool
	// DryRunKeys carries the keys over the dry runs of one import; nil: a dry run of its own.
	DryRunKeys *DryRunKeys
}

// Done is the result of an upsert.
type Done string

// The results of an upsert. The empty one marks an upsert that was not reached because of an error.
const (
	Created   Done = "created"
	Updated   Done = "updated"
	Unchanged Done = "unchanged"
	Failed    Done = "failed"
)

// Outcome is the result of an upsert with its details.
type Outcome struct {
	Done Done
	// Endpoint is the stored endpoint, or the one that a dry run would store; nil if there is none.
	Endpoint *Endpoint
	// Changes lists the changed fields of an update.
	Changes  []string
	Warnings []errs.Field
	// Err is the cause of a failed upsert.
	Err error
	// tries counts the rounds that a concurrent change has spoiled.
	tries int
}
