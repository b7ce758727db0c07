package store

import "time"

// optional returns a pointer to a time, or nil (NULL) if it is zero.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// optionalText returns a pointer to a text, or nil (NULL) if it is empty.
func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// given returns a pointer to an ID, or nil (NULL) if it is zero.
func given[T ~[16]byte](id T) *[16]byte {
	if id == (T{}) {
		return nil
	}
	return new([16]byte(id))
}

// orZero dereferences a pointer. It returns the zero value for nil.
func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// notNull returns an empty list instead of nil. The driver sends nil as NULL, and "id <> ALL
// (NULL)" is never true.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// orNil returns nil for an empty map, because an empty map takes memory.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
