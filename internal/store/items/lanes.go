package items

import (
	"rubato/internal/claims"
	"rubato/internal/endpoints"
)

// lanes are the combinations of tag set and priority that a worker claims, as parallel columns.
type lanes struct {
	sets       []int32
	priorities []int16
	yields     []bool
}

// lanesOf returns the lanes of tag sets: every priority of each.
func lanesOf(sets claims.TagSets) lanes {
	list := sets.List
	if !sets.Exclusive {
		list = append([]claims.TagSet{{}}, list...)
	}
	var l lanes
	for _, set := range list {
		for p := endpoints.Low; p <= endpoints.Critical; p++ {
			l.sets = append(l.sets, set.ID)
			l.priorities = append(l.priorities, int16(p))
			l.yields = append(l.yields, set.Yields)
		}
	}
	return l
}
