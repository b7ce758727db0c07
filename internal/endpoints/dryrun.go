package endpoints

import "time"

// DryRunKeys is what dry runs would have left of keys: who has another one by now, and which ones new endpoints took. Nothing of a nil one
// is known. It is for one caller at a time.
type DryRunKeys struct {
	keys  map[ID]string   // of endpoints that would have another key than is stored, or none
	whose map[string]ID   // the same by key
	fresh map[string]bool // keys of endpoints that would have been created
}

// NewDryRunKeys returns what nothing before a dry run leaves.
func NewDryRunKeys() *DryRunKeys {
	return &DryRunKeys{keys: map[ID]string{}, whose: map[string]ID{}, fresh: map[string]bool{}}
}

// holders returns the endpoints that would have one of the keys, and do not have it in the store.
func (f *DryRunKeys) holders(keys []string) (ids []ID) {
	if f == nil {
		return nil
	}
	for _, key := range keys {
		if id, found := f.whose[key]; found {
			ids = append(ids, id)
		}
	}
	return ids
}

// apply gives stored endpoints the keys that they would have.
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

// takes reports whether an endpoint that would have been created has a key.
func (f *DryRunKeys) takes(key string) bool { return f != nil && f.fresh[key] }

// move notes that an endpoint would have another key, or none.
func (f *DryRunKeys) move(id ID, old, key string) {
	if old == key {
		return
	}
	if f.whose[old] == id {
		delete(f.whose, old)
	}
	f.keys[id] = key
	if key != "" {
		f.whose[key] = id
	}
}

// note keeps what the upserts of a dry run would have left of keys, for those after them.
func (r *round) note() {
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

// foresee fills in the outcome of a dry run.
func (r *round) foresee(i int, spec Spec, now time.Time) {
	out := &r.out[i]
	if out.Done = Created; len(out.Changes) > 0 {
		out.Done = Updated
	}
	r.keys[i] = spec.Key
	would := *out.Endpoint
	would.Spec, would.Cron = spec, nil
	out.Warnings = append(would.Warnings(now), would.plannerWarnings(now)...)
	r.refer(i, spec)
}
