package endpoints

import (
	"context"
	"slices"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

const (
	// changeBatch is the number of endpoints that one transaction changes. It is small, because
	// their runs cannot start while their rows are locked.
	changeBatch = 100
	// maxRounds bounds the retries of an upsert after concurrent changes between its read and its
	// write.
	maxRounds = 4
)

// Upsert carries out upserts as if one after the other, and returns an outcome for each. An invalid
// upsert fails alone. The error reports a database failure: outcomes without a [Done] were not
// carried out then.
func (b *Bulk) Upsert(ctx context.Context, by Actor, list []Upsert, mode Mode) ([]Outcome, error) {
	out := make([]Outcome, len(list))
	pending := make([]int, len(list))
	for i := range list {
		pending[i] = i
	}
	if mode.DryRun && mode.DryRunKeys == nil {
		mode.DryRunKeys = NewDryRunKeys()
	}
	for len(pending) > 0 {
		r := &upsertBatch{
			bulk:       b,
			by:         by,
			mode:       mode,
			list:       list,
			out:        out,
			references: map[int][]Reference{},
			keys:       map[int]string{},
		}
		n, err := r.plan(ctx, pending)
		if err != nil {
			return out, err
		}
		if err := r.checkSecrets(ctx); err != nil {
			return out, err
		}
		if mode.DryRun {
			r.rememberKeys()
		} else if err := r.write(ctx); err != nil {
			return out, err
		}
		pending = append(r.again(pending[:n]), pending[n:]...)
	}
	return out, nil
}

// upsertBatch is a group of upserts that do not depend on each other, so that one transaction can
// carry them out.
type upsertBatch struct {
	bulk *Bulk
	by   Actor
	mode Mode
	list []Upsert
	out  []Outcome

	creates []int
	changes []int
	// found holds the stored endpoints by the index of the upsert.
	found map[int]*Endpoint

	// references holds the secret references of invalid upserts and of a dry run.
	references map[int][]Reference
	// keys holds the keys of a dry run.
	keys map[int]string
}

// plan reads the stored endpoints and decides about the longest prefix of pending upserts that do
// not depend on each other. It returns the length of that prefix.
func (r *upsertBatch) plan(ctx context.Context, pending []int) (int, error) {
	pending = r.distinct(pending)
	ids, keys := r.names(pending)
	ids = append(ids, r.mode.DryRunKeys.holdersOf(keys)...)
	stored, now, err := r.bulk.store.Find(ctx, r.by.TenantID, ids, keys)
	if err != nil {
		return 0, err
	}
	r.mode.DryRunKeys.apply(stored)
	byID, byKey := map[ID]*Endpoint{}, map[string]*Endpoint{}
	for _, e := range stored {
		byID[e.ID], byKey[e.Spec.Key] = e, e
	}
	r.found = map[int]*Endpoint{}
	used := map[ID]bool{}
	for n, i := range pending {
		e := byID[r.list[i].ID]
		if e == nil && r.list[i].Key != "" {
			e = byKey[r.list[i].Key]
		}
		if e != nil && used[e.ID] { // An earlier upsert selected it by other means and must run first.
			return n, nil
		}
		if e != nil {
			used[e.ID] = true
			r.found[i] = e
		}
		if other := byKey[r.list[i].Key]; e != nil && other != e && r.taken(r.list[i].Key, other) {
			if other != nil && used[other.ID] { // An earlier upsert may free the key and must run first.
				return n, nil
			}
			r.refuse(i, errs.New(errs.Conflict, "key_taken", "another endpoint has this key; choose another, or edit that endpoint"))
			continue
		}
		r.decide(i, now)
	}
	return len(pending), nil
}

// taken reports whether a key is in use, by another stored endpoint or by one of a dry run.
func (r *upsertBatch) taken(key string, other *Endpoint) bool {
	return key != "" && (other != nil || r.mode.DryRunKeys.takes(key))
}

// names returns the IDs and keys of the pending upserts.
func (r *upsertBatch) names(pending []int) (ids []ID, keys []string) {
	for _, i := range pending {
		if u := r.list[i]; u.ID != (ID{}) {
			ids = append(ids, u.ID)
		}
		if u := r.list[i]; u.Key != "" {
			keys = append(keys, u.Key)
		}
	}
	return ids, keys
}

// distinct returns the longest prefix of pending upserts with distinct IDs and keys.
func (r *upsertBatch) distinct(pending []int) []int {
	ids, keys := map[ID]bool{{}: false}, map[string]bool{}
	for n, i := range pending {
		u := r.list[i]
		if u.ID != (ID{}) && ids[u.ID] || u.Key != "" && keys[u.Key] {
			return pending[:n]
		}
		ids[u.ID], keys[u.Key] = true, true
	}
	return pending
}

// decide sorts one upsert into creates, changes or done.
func (r *upsertBatch) decide(i int, now time.Time) {
	out, stored := &r.out[i], r.found[i]
	spec, err := r.want(i, stored)
	switch {
	case err != nil:
		*out = Outcome{
			Done:     Failed,
			Endpoint: stored,
			Err:      err,
			tries:    out.tries,
		}
		r.refer(i, spec)
	case stored == nil:
		out.Endpoint = &Endpoint{
			ID:        NewID(),
			TenantID:  r.by.TenantID,
			Version:   1,
			CreatedAt: now,
			UpdatedAt: now,
			Spec:      spec,
		}
		r.creates = append(r.creates, i)
	default:
		out.Endpoint, out.Changes = stored, stored.Spec.Diff(spec)
		if len(out.Changes) == 0 {
			out.Done, out.Warnings = Unchanged, stored.Warnings(now)
			return
		}
		r.changes = append(r.changes, i)
	}
	if r.mode.DryRun && err == nil {
		r.simulate(i, spec, now)
	}
}

// want returns the requested spec of an upsert, and an error if it is not valid.
func (r *upsertBatch) want(i int, stored *Endpoint) (Spec, error) {
	if stored != nil && stored.Fault != nil { // The audit log could not record the replaced configuration.
		return Spec{}, stored.Fault
	}
	spec, err := r.list[i].Want(stored)
	if err != nil {
		return spec, err
	}
	spec = spec.Normalize()
	var id ID
	if stored != nil {
		id = stored.ID
	}
	return spec, r.bulk.validate.For(r.by.TenantID).Check(id, spec)
}

// write stores the creates and the changes.
func (r *upsertBatch) write(ctx context.Context) error {
	// Keys are taken in sorted order, because concurrent transactions could deadlock otherwise.
	slices.SortStableFunc(r.creates, func(i, j int) int {
		return strings.Compare(r.out[i].Endpoint.Spec.Key, r.out[j].Endpoint.Spec.Key)
	})
	if err := bisect(ctx, r.creates, r.create, r.refuse); err != nil {
		return err
	}
	for chunk := range slices.Chunk(r.changes, changeBatch) {
		if err := bisect(ctx, chunk, r.change, r.refuse); err != nil {
			return err
		}
	}
	return nil
}

// create stores new endpoints in one transaction.
func (r *upsertBatch) create(ctx context.Context, list []int) error {
	taken, err := r.bulk.store.CreateMany(ctx, auditlog.Act{By: r.by, Action: auditlog.Register}, func(now time.Time) ([]New, error) {
		all := make([]New, 0, len(list))
		for _, i := range list {
			e := r.out[i].Endpoint
			e.CreatedAt, e.UpdatedAt, e.State = now, now, State{}
			if r.mode.Spread {
				e.spread(now)
			}
			planned, err := e.Replan(now)
			if err != nil {
				return nil, err
			}
			planned.Cause, planned.Author = CauseRegister, r.by.Name
			r.out[i].Warnings = append(e.Warnings(now), e.plannerWarnings(now)...)
			all = append(all, New{Endpoint: e, Planned: planned})
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	for _, i := range list {
		if !slices.Contains(taken, r.out[i].Endpoint.ID) {
			r.out[i].Done = Created
		}
	}
	return nil
}

// change edits stored endpoints in one transaction. It decides again under the lock, because an
// endpoint may have changed since the read.
func (r *upsertBatch) change(ctx context.Context, list []int) error {
	byID := make(map[ID]int, len(list))
	ids := make([]ID, len(list))
	for n, i := range list {
		ids[n] = r.found[i].ID
		byID[ids[n]] = i
	}
	done := make(map[int]Outcome, len(list))
	err := r.bulk.store.ChangeMany(ctx, auditlog.Act{By: r.by, Action: auditlog.Edit}, ids, func(e *Endpoint, now time.Time) (*Recorded, bool) {
		i := byID[e.ID]
		out, planned := r.edit(i, e, now)
		done[i] = out
		return planned, out.Done == Updated
	})
	if err != nil {
		return err
	}
	for i, out := range done {
		r.out[i] = out
	}
	return nil
}

// edit applies one upsert to its locked endpoint.
func (r *upsertBatch) edit(i int, e *Endpoint, now time.Time) (Outcome, *Recorded) {
	spec, err := r.want(i, e)
	if err != nil {
		return Outcome{
			Done:     Failed,
			Endpoint: e,
			Err:      err,
		}, nil
	}
	out := Outcome{
		Done:     Updated,
		Endpoint: e,
		Changes:  e.Spec.Diff(spec),
	}
	if len(out.Changes) == 0 {
		return Outcome{
			Done:     Unchanged,
			Endpoint: e,
			Warnings: e.Warnings(now),
		}, nil
	}
	before := *e
	e.Revise(spec, now)
	out.Warnings = append(e.Warnings(now), e.plannerWarnings(now)...)
	planned, err := e.replanAfter(now, &before, CauseEdit, r.by)
	if err != nil {
		return Outcome{
			Done:     Failed,
			Endpoint: e,
			Err:      err,
		}, nil
	}
	return out, planned
}

func (r *upsertBatch) refuse(i int, err error) { r.out[i] = Outcome{Done: Failed, Err: err} }

// again returns the upserts that a concurrent change has spoiled, for another round.
func (r *upsertBatch) again(carried []int) []int {
	var left []int
	for _, i := range carried {
		out := &r.out[i]
		if out.Done != "" {
			continue
		}
		tries := out.tries + 1
		*out = Outcome{tries: tries}
		if tries == maxRounds {
			r.refuse(i, errs.New(errs.Conflict, "busy", "others keep changing this endpoint at the same time; try again"))
			continue
		}
		left = append(left, i)
	}
	return left
}

// bisect applies a function to a list at once. If the store refuses the list, it halves the list
// recursively, until each refused item is found.
func bisect(ctx context.Context, list []int, apply func(context.Context, []int) error, refuse func(int, error)) error {
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
	if err := bisect(ctx, list[:half], apply, refuse); err != nil {
		return err
	}
	return bisect(ctx, list[half:], apply, refuse)
}
