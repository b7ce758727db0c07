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
	// changeBatch is how many endpoints are changed at once: no run of anybody starts meanwhile, so it takes milliseconds.
	changeBatch = 100
	// maxRounds is how often an upsert looks again after others have created or archived the endpoint between its look and its write.
	maxRounds = 4
)

// Upsert carries out upserts in their order, as if one after the other, and returns an outcome for each. What cannot be done fails
// alone. The error is about the database: then outcomes without [Done] were not carried out.
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
		r := &round{bulk: b, by: by, mode: mode, list: list, out: out, references: map[int][]Reference{}, keys: map[int]string{}}
		n, err := r.plan(ctx, pending)
		if err != nil {
			return out, err
		}
		if err := r.checkSecrets(ctx); err != nil {
			return out, err
		}
		if mode.DryRun {
			r.note()
		} else if err := r.write(ctx); err != nil {
			return out, err
		}
		pending = append(r.again(pending[:n]), pending[n:]...)
	}
	return out, nil
}

// round is a group of upserts that do not depend on each other.
type round struct {
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
func (r *round) plan(ctx context.Context, pending []int) (int, error) {
	pending = r.distinct(pending)
	ids, keys := r.names(pending)
	ids = append(ids, r.mode.DryRunKeys.holders(keys)...)
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
		if e != nil && used[e.ID] { // It was named before in another way: that one first.
			return n, nil
		}
		if e != nil {
			used[e.ID] = true
			r.found[i] = e
		}
		if other := byKey[r.list[i].Key]; e != nil && other != e && r.taken(r.list[i].Key, other) {
			if other != nil && used[other.ID] { // It may let go of the key: that one first.
				return n, nil
			}
			r.refuse(i, errs.New(errs.Conflict, "key_taken", "another endpoint has this key; choose another, or edit that endpoint"))
			continue
		}
		r.decide(i, now)
	}
	return len(pending), nil
}

// taken reports whether somebody has a key: other in the store, or one that a dry run would have created.
func (r *round) taken(key string, other *Endpoint) bool {
	return key != "" && (other != nil || r.mode.DryRunKeys.takes(key))
}

// names returns the IDs and keys that upserts name.
func (r *round) names(pending []int) (ids []ID, keys []string) {
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

// distinct returns the first of the pending upserts up to one that names what another of them names.
func (r *round) distinct(pending []int) []int {
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

// decide sorts one upsert by what there is to do for it.
func (r *round) decide(i int, now time.Time) {
	out, stored := &r.out[i], r.found[i]
	spec, err := r.want(i, stored)
	switch {
	case err != nil:
		*out = Outcome{Done: Failed, Endpoint: stored, Err: err, tries: out.tries}
		r.refer(i, spec)
	case stored == nil:
		out.Endpoint = &Endpoint{ID: NewID(), TenantID: r.by.TenantID, Version: 1, CreatedAt: now, UpdatedAt: now, Spec: spec}
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
		r.foresee(i, spec, now)
	}
}

// want returns the spec that an upsert asks for, with an error where it is not valid.
func (r *round) want(i int, stored *Endpoint) (Spec, error) {
	if stored != nil && stored.Fault != nil { // The audit log could not say what was replaced.
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

// write carries out what was planned.
func (r *round) write(ctx context.Context) error {
	slices.SortStableFunc(r.creates, func(i, j int) int { // The order in which the store takes keys.
		return strings.Compare(r.out[i].Endpoint.Spec.Key, r.out[j].Endpoint.Spec.Key)
	})
	if err := isolate(ctx, r.creates, r.create, r.refuse); err != nil {
		return err
	}
	for chunk := range slices.Chunk(r.changes, changeBatch) {
		if err := isolate(ctx, chunk, r.change, r.refuse); err != nil {
			return err
		}
	}
	return nil
}

// create stores new endpoints in one transaction.
func (r *round) create(ctx context.Context, list []int) error {
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

// change edits stored endpoints in one transaction. What the lock shows may differ from what was found, so it is decided again.
func (r *round) change(ctx context.Context, list []int) error {
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

// edit brings one endpoint to what is wanted of it.
func (r *round) edit(i int, e *Endpoint, now time.Time) (Outcome, *Recorded) {
	spec, err := r.want(i, e)
	if err != nil {
		return Outcome{Done: Failed, Endpoint: e, Err: err}, nil
	}
	out := Outcome{Done: Updated, Endpoint: e, Changes: e.Spec.Diff(spec)}
	if len(out.Changes) == 0 {
		return Outcome{Done: Unchanged, Endpoint: e, Warnings: e.Warnings(now)}, nil
	}
	before := *e
	e.Revise(spec, now)
	out.Warnings = append(e.Warnings(now), e.plannerWarnings(now)...)
	planned, err := e.follow(now, &before, CauseEdit, r.by)
	if err != nil {
		return Outcome{Done: Failed, Endpoint: e, Err: err}, nil
	}
	return out, planned
}

func (r *round) refuse(i int, err error) { r.out[i] = Outcome{Done: Failed, Err: err} }

// again returns those of the upserts that others came in between of, to look at afresh.
func (r *round) again(carried []int) []int {
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
