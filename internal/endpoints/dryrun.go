package endpoints

import "time"

// DryRunKeys is the state of keys after the dry runs so far: the endpoints with a changed key, and
// the keys of new endpoints. A nil one is empty. It is not safe for concurrent use.
type DryRunKeys struct {
	// keys holds the keys of endpoints with a key that would differ from the stored one; empty: none.
	keys map[ID]string
	// holders is the inverse of keys.
	holders map[string]ID
	// fresh holds the keys of endpoints that would be created.
	fresh map[string]bool
}

// NewDryRunKeys returns an empty state.
func NewDryRunKeys() *DryRunKeys {
	return &DryRunKeys{
		keys:    map[ID]string{},
		holders: map[string]ID{},
		fresh:   map[string]bool{},
	}
}

// holdersOf returns the endpoints that would have one of the keys without having it in the store.
func (f *DryRunKeys) holdersOf(keys []string) (ids []ID) {
	if f == nil {
		return nil
	}
	for _, key := range keys {
		if id, found := f.holders[key]; found {
			ids = append(ids, id)
		}
	}
	return ids
}

// apply replaces the keys of stored endpoints by their keys after the dry runs.
func (f *DryRunKeys) apply(stored []*Endpoint) {
	if f == nil {
		return
	}
	for _, e := range stored {
		if key, found := f.keys[e.ID]; found {
			e.Spec.Key = key
		}
	}
}

// takes reports whether a dry run would have created an endpoint with a key.
func (f *DryRunKeys) takes(key string) bool { return f != nil && f.fresh[key] }

// move records that an endpoint would have another key, or none.
func (f *DryRunKeys) move(id ID, old, key string) {
	if old == key {
		return
	}
	if f.holders[old] == id {
		delete(f.holders, old)
	}
	f.keys[id] = key
	if key != "" {
		f.holders[key] = id
	}
}

// rememberKeys records the keys that this dry run would have left, for later upserts.
func (r *upsertBatch) rememberKeys() {
	for i, key := range r.keys {
		switch out := r.out[i]; out.Done {
		case Created:
			r.mode.DryRunKeys.fresh[key] = true
		case Updated:
			r.mode.DryRunKeys.move(out.Endpoint.ID, out.Endpoint.Spec.Key, key)
		case Unchanged, Failed:
		}
	}
}

// simulate fills in the outcome of a dry run.
func (r *upsertBatch) simulate(i int, spec Spec, now time.Time) {
	out := &r.out[i]
	if out.Done = Created; len(out.Changes) > 0 {
		out.Done = Updated
	}
	r.keys[i] = spec.Key
	changed := *out.Endpoint
	changed.Spec, changed.Cron = spec, nil
	out.Warnings = append(changed.Warnings(now), changed.plannerWarnings(now)...)
	r.refer(i, spec)
}
