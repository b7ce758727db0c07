package endpoints

import (
	"reflect"
	"time"
)

// Diff returns the API names of the fields that differ between two normalized specs; nil if they
// are equal.
func (s Spec) Diff(other Spec) []string {
	a, b := reflect.ValueOf(s), reflect.ValueOf(other)
	var names []string
	for i := range a.NumField() {
		if !same(a.Field(i), b.Field(i)) {
			names = append(names, fieldsOf(a.Type())[i].name)
		}
	}
	return names
}

// same compares two values of one field. Instants compare as instants, and a nil map equals an
// empty one.
func same(a, b reflect.Value) bool {
	if t, ok := reflect.TypeAssert[time.Time](a); ok {
		u, _ := reflect.TypeAssert[time.Time](b) // Both have the type of the field.
		return t.Equal(u)
	}
	if a.Kind() == reflect.Map && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
