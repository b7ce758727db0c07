package endpoints

import (
	"context"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

const (
	// changeBatch is how many endpoints are changed at once: no run of anybody starts meanwhile, so it takes milliseconds.
	changeBatch = 100
	// maxRounds is how often an upsert looks again after others have created or archived the endpoint between its look and its write.
	maxRounds = 4
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
	// Foresight is what the dry runs before this one would have left, where they belong together; nil: they do not.
	Foresight *Foresight
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

// Upsert carries out upserts in their order, as if one after the other, and returns an outcome for each. What cannot be done fails
// alone. The error is about the database: then outcomes without [Done] were not carried out.
func (b *Bulk) Upsert(ctx context.Context, by Actor, list []Upsert, mode Mode) ([]Outcome, error) {
	out := make([]Outcome, len(list))
	pending := make([]int, len(list))
	for i := range list {
		pending[i] = i
	}
	if mode.DryRun && mode.Foresight == nil {
		mode.Foresight = NewForesight()
	}
	for len(pending) > 0 {
		s := &step{bulk: b, by: by, mode: mode, list: list, out: out, references: map[int][]Reference{}, keys: map[int]string{}}
		n, err := s.plan(ctx, pending)
		if err != nil {
			return out, err
		}
		if err := s.checkSecrets(ctx); err != nil {
			return out, err
		}
		if mode.DryRun {
			s.note()
		} else if err := s.write(ctx); err != nil {
			return out, err
		}
		pending = append(s.again(pending[:n]), pending[n:]...)
	}
	return out, nil
}

// step is a group of upserts that do not depend on each other.
type step struct {
	bulk *Bulk
	by   Actor
	mode Mode
	list []Upsert
	out  []Outcome

	creates []int
	changes []int
	found   map[int]*Endpoint // what an upsert replaces

	references map[int][]Reference // to secrets, of what is wrong, and of what a dry run would write
	keys       map[int]string      // of what a dry run would write
}

// plan looks up what is stored and decides about the first of the pending upserts, as many as do not depend on each other. It
// returns how many.
func (s *step) plan(ctx context.Context, pending []int) (int, error) {
	pending = s.distinct(pending)
	ids, keys := s.names(pending)
	ids = append(ids, s.mode.Foresight.holders(keys)...)
	stored, now, err := s.bulk.store.Find(ctx, s.by.TenantID, ids, keys)
	if err != nil {
		return 0, err
	}
	s.mode.Foresight.apply(stored)
	byID, byKey := map[ID]*Endpoint{}, map[string]*Endpoint{}
	for _, e := range stored {
		byID[e.ID], byKey[e.Spec.Key] = e, e
	}
	s.found = map[int]*Endpoint{}
	used := map[ID]bool{}
	for n, i := range pending {
		e := byID[s.list[i].ID]
		if e == nil && s.list[i].Key != "" {
			e = byKey[s.list[i].Key]
		}
		if e != nil && used[e.ID] { // It was named before in another way: that one first.
			return n, nil
		}
		if e != nil {
			used[e.ID] = true
			s.found[i] = e
		}
		if other := byKey[s.list[i].Key]; e != nil && other != e && s.taken(s.list[i].Key, other) {
			if other != nil && used[other.ID] { // It may let go of the key: that one first.
				return n, nil
			}
			s.refuse(i, errs.New(errs.Conflict, "key_taken", "another endpoint has this key; choose another, or edit that endpoint"))
			continue
		}
		s.decide(i, now)
	}
	return len(pending), nil
}

// taken reports whether somebody has a key: other in the store, or one that a dry run would have created.
func (s *step) taken(key string, other *Endpoint) bool {
	return key != "" && (other != nil || s.mode.Foresight.takes(key))
}

// names returns the IDs and keys that upserts name.
func (s *step) names(pending []int) (ids []ID, keys []string) {
	for _, i := range pending {
		if u := s.list[i]; u.ID != (ID{}) {
			ids = append(ids, u.ID)
		}
		if u := s.list[i]; u.Key != "" {
			keys = append(keys, u.Key)
		}
	}
	return ids, keys
}

// distinct returns the first of the pending upserts up to one that names what another of them names.
func (s *step) distinct(pending []int) []int {
	ids, keys := map[ID]bool{{}: false}, map[string]bool{}
	for n, i := range pending {
		u := s.list[i]
		if u.ID != (ID{}) && ids[u.ID] || u.Key != "" && keys[u.Key] {
			return pending[:n]
		}
		ids[u.ID], keys[u.Key] = true, true
	}
	return pending
}

// decide sorts one upsert by what there is to do for it.
func (s *step) decide(i int, now time.Time) {
	out, stored := &s.out[i], s.found[i]
	spec, err := s.want(i, stored)
	switch {
	case err != nil:
		*out = Outcome{Done: Failed, Endpoint: stored, Err: err, tries: out.tries}
		s.refer(i, spec)
	case stored == nil:
		out.Endpoint = &Endpoint{ID: NewID(), TenantID: s.by.TenantID, Version: 1, CreatedAt: now, UpdatedAt: now, Spec: spec}
		s.creates = append(s.creates, i)
	default:
		out.Endpoint, out.Changes = stored, stored.Spec.Diff(spec)
		if len(out.Changes) == 0 {
			out.Done, out.Warnings = Unchanged, stored.Warnings(now)
			return
		}
		s.changes = append(s.changes, i)
	}
	if s.mode.DryRun && err == nil {
		s.foresee(i, spec, now)
	}
}

// want returns the spec that an upsert asks for, with an error where it is not valid.
func (s *step) want(i int, stored *Endpoint) (Spec, error) {
	spec, err := s.list[i].Want(stored)
	if err != nil {
		return spec, err
	}
	spec = spec.Normalize()
	var id ID
	if stored != nil {
		id = stored.ID
	}
	return spec, s.bulk.validate.For(s.by.TenantID).Check(id, spec)
}

// write carries out what was planned.
func (s *step) write(ctx context.Context) error {
	slices.SortStableFunc(s.creates, func(i, j int) int { // The order in which the store takes keys.
		return compareKeys(s.out[i].Endpoint, s.out[j].Endpoint)
	})
	if err := isolate(ctx, s.creates, s.create, s.refuse); err != nil {
		return err
	}
	for chunk := range slices.Chunk(s.changes, changeBatch) {
		if err := isolate(ctx, chunk, s.change, s.refuse); err != nil {
			return err
		}
	}
	return nil
}

func compareKeys(a, b *Endpoint) int {
	if a.Spec.Key < b.Spec.Key {
		return -1
	}
	if a.Spec.Key > b.Spec.Key {
		return 1
	}
	return 0
}

// create stores new endpoints in one transaction.
func (s *step) create(ctx context.Context, list []int) error {
	taken, err := s.bulk.store.CreateMany(ctx, auditlog.Act{By: s.by, Action: causeRegister}, func(now time.Time) ([]New, error) {
		all := make([]New, 0, len(list))
		for _, i := range list {
			e := s.out[i].Endpoint
			e.CreatedAt, e.UpdatedAt, e.State = now, now, State{}
			if s.mode.Spread {
				e.spread(now)
			}
			planned, err := e.Replan(now)
			if err != nil {
				return nil, err
			}
			planned.Cause, planned.Author = causeRegister, s.by.Name
			s.out[i].Warnings = e.Warnings(now)
			all = append(all, New{Endpoint: e, Planned: planned})
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	for _, i := range list {
		if !slices.Contains(taken, s.out[i].Endpoint.ID) {
			s.out[i].Done = Created
		}
	}
	return nil
}

// change edits stored endpoints in one transaction. What the lock shows may differ from what was found, so it is decided again.
func (s *step) change(ctx context.Context, list []int) error {
	byID := make(map[ID]int, len(list))
	ids := make([]ID, len(list))
	for n, i := range list {
		ids[n] = s.found[i].ID
		byID[ids[n]] = i
	}
	done := make(map[int]Outcome, len(list))
	err := s.bulk.store.ChangeMany(ctx, auditlog.Act{By: s.by, Action: causeEdit}, ids, func(e *Endpoint, now time.Time) (*Recorded, bool) {
		i := byID[e.ID]
		out, planned := s.edit(i, e, now)
		done[i] = out
		return planned, out.Done == Updated
	})
	if err != nil {
		return err
	}
	for i, out := range done {
		s.out[i] = out
	}
	return nil
}

// edit brings one endpoint to what is wanted of it.
func (s *step) edit(i int, e *Endpoint, now time.Time) (Outcome, *Recorded) {
	spec, err := s.want(i, e)
	if err != nil {
		return Outcome{Done: Failed, Endpoint: e, Err: err}, nil
	}
	out := Outcome{Done: Updated, Endpoint: e, Changes: e.Spec.Diff(spec)}
	if len(out.Changes) == 0 {
		return Outcome{Done: Unchanged, Endpoint: e, Warnings: e.Warnings(now)}, nil
	}
	before := *e
	e.Revise(spec, now)
	out.Warnings = e.Warnings(now)
	planned, err := e.follow(now, &before, causeEdit, s.by)
	if err != nil {
		return Outcome{Done: Failed, Endpoint: e, Err: err}, nil
	}
	return out, planned
}

func (s *step) refuse(i int, err error) { s.out[i] = Outcome{Done: Failed, Err: err} }

// again returns those of the upserts that others came in between of, to look at afresh.
func (s *step) again(carried []int) []int {
	var left []int
	for _, i := range carried {
		out := &s.out[i]
		if out.Done != "" {
			continue
		}
		tries := out.tries + 1
		*out = Outcome{tries: tries}
		if tries == maxRounds {
			s.refuse(i, errs.New(errs.Conflict, "busy", "others keep changing this endpoint at the same time; try again"))
			continue
		}
		left = append(left, i)
	}
	return left
}

// isolate applies something to a list at once. Where the store refuses, it halves the list until it has found what it refuses.
func isolate(ctx context.Context, list []int, apply func(context.Context, []int) error, refuse func(int, error)) error {
	if len(list) == 0 {
		return nil
	}
	err := apply(ctx, list)
	if code := errs.CodeOf(err); err == nil || code != errs.Invalid && code != errs.Conflict {
		return err
	}
	if len(list) == 1 {
		refuse(list[0], err)
		return nil
	}
	half := len(list) / 2
	if err := isolate(ctx, list[:half], apply, refuse); err != nil {
		return err
	}
	return isolate(ctx, list[half:], apply, refuse)
}
