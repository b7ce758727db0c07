package claims

import "slices"

// TagSets are the tag sets that a worker serves. The zero value is that of a worker without tags,
// which serves the endpoints without tags.
type TagSets struct {
	// Exclusive workers do not serve endpoints without tags.
	Exclusive bool
	// List holds the served sets except set 0, which has no tags.
	List []TagSet
}

// TagSet is one tag set that a worker serves.
type TagSet struct {
	ID int32
	// Yields is set if another worker is preferred. This worker then claims endpoints of the set
	// only some time after their due times, and keeps none.
	Yields bool
}

// Keeps reports whether the worker may keep the next due time of an endpoint with a tag set.
func (s TagSets) Keeps(id int32) bool {
	if id == 0 {
		return !s.Exclusive
	}
	return slices.Contains(s.List, TagSet{ID: id})
}

// Equal reports whether two workers with these sets would claim the same endpoints.
func (s TagSets) Equal(other TagSets) bool {
	return s.Exclusive == other.Exclusive && slices.Equal(s.List, other.List)
}
