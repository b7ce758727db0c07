package pg

import "time"

// Optional returns a pointer to a time, or nil (NULL) if it is zero.
func Optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// OptionalText returns a pointer to a text, or nil (NULL) if it is empty.
func OptionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Given returns a pointer to an ID, or nil (NULL) if it is zero.
func Given[T ~[16]byte](id T) *[16]byte {
	if id == (T{}) {
		return nil
	}
	return new([16]byte(id))
}

// OrZero dereferences a pointer. It returns the zero value for nil.
func OrZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// NotNull returns an empty list instead of nil. The driver sends nil as NULL, and "id <> ALL
// (NULL)" is never true.
func NotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// OrNil returns nil for an empty map, because an empty map takes memory.
func OrNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
