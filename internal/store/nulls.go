package store

import "time"

// optional returns a pointer to an instant, nil where it is zero: NULL, which is none, or no filter.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// optionalText returns a pointer to a text, nil where it is empty, likewise.
func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// given returns a pointer to an ID, nil where it is zero, likewise.
func given[T ~[16]byte](id T) *[16]byte {
	if id == (T{}) {
		return nil
	}
	return new([16]byte(id))
}

// orZero returns what a pointer leads to, the zero value where it is nil.
func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// notNull returns an empty list in place of nil. The driver sends nil as NULL, and "id <> ALL (NULL)" is not true of any row.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// orNil returns a map, or nil where it holds nothing: an empty one takes memory.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
