package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/store/history"
)

// difference is a value of one entry that the replay does not give.
type difference struct {
	field, recorded, recomputed string
}

// at returns a difference with its place; nil: there is none.
func (d *difference) at(row *entry, id endpoints.ID) *Difference {
	if d == nil {
		return nil
	}
	found := &Difference{
		EndpointID: id.String(),
		DecisionID: row.id,
		Cause:      string(row.cause),
		At:         row.at,
		Field:      d.field,
		Recorded:   d.recorded,
		Recomputed: d.recomputed,
	}
	if row.cause == endpoints.CauseFinish {
		found.RunID = row.run.ID.String()
	}
	return found
}

// first returns the first difference; nil: there is none.
func first(list ...*difference) *difference {
	for _, d := range list {
		if d != nil {
			return d
		}
	}
	return nil
}

// compare returns the difference of two values.
func compare[T comparable](field string, recorded, recomputed T) *difference {
	if recorded == recomputed {
		return nil
	}
	a, b := any(recorded), any(recomputed)
	if at, is := a.(time.Time); is {
		if at.Equal(b.(time.Time)) { //nolint:forcetypeassert // Both are of one type.
			return nil
		}
		a, b = at.Format(time.RFC3339Nano), b.(time.Time).UTC().Format(time.RFC3339Nano) //nolint:forcetypeassert // Likewise.
	}
	return &difference{
		field:      field,
		recorded:   fmt.Sprint(a),
		recomputed: fmt.Sprint(b),
	}
}

// Members of a state.
var (
	// untouched are the members of a state that only the finish of a run writes.
	untouched = []string{"due", "anchor", "lastSlot", "lastCall", "lastRun", "tempo"}
	// scheduled are the members of a state that the schedule holds.
	scheduled = append([]string{"failureCount", "runsDone", "endedAt", "pausedUntil", "pauseReason", "retryAfter", "targetNext", "freshUntil", "accountedUntil"}, untouched...)
)

// compareStates compares members of two states.
func compareStates(recorded, recomputed *endpoints.State, members []string) *difference {
	a, b := decoded(history.EncodeState(recorded)), decoded(history.EncodeState(recomputed))
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	for _, name := range members {
		if d := differ("state."+name, x[name], y[name]); d != nil {
			return d
		}
	}
	return nil
}

// compareJSON compares two documents; nil is none.
func compareJSON(field string, recorded, recomputed []byte) *difference {
	return differ(field, decoded(recorded), decoded(recomputed))
}

// decoded returns a document as maps, lists and scalars; nil: there is none.
func decoded(raw []byte) (v any) {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	return v
}

// differ returns the first difference of two documents. Instants are equal in every zone.
func differ(field string, a, b any) *difference {
	switch x := a.(type) {
	case map[string]any:
		if y, is := b.(map[string]any); is {
			return differMembers(field, x, y)
		}
	case []any:
		if y, is := b.([]any); is && len(x) == len(y) {
			return differItems(field, x, y)
		}
	case string:
		if y, is := b.(string); is && (x == y || sameInstant(x, y)) {
			return nil
		}
	default:
		if a == b {
			return nil
		}
	}
	return &difference{
		field:      field,
		recorded:   shown(a),
		recomputed: shown(b),
	}
}

// differMembers returns the first difference of two objects, by name.
func differMembers(field string, a, b map[string]any) *difference {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if d := differ(field+"."+name, a[name], b[name]); d != nil {
			return d
		}
	}
	return nil
}

// differItems returns the first difference of two lists of equal length.
func differItems(field string, a, b []any) *difference {
	for i := range a {
		if d := differ(field+"["+strconv.Itoa(i)+"]", a[i], b[i]); d != nil {
			return d
		}
	}
	return nil
}

func sameInstant(a, b string) bool {
	x, err := time.Parse(time.RFC3339Nano, a)
	if err != nil {
		return false
	}
	y, err := time.Parse(time.RFC3339Nano, b)
	return err == nil && x.Equal(y)
}

// shown returns a value as text; "none" for an absent one.
func shown(v any) string {
	if v == nil {
		return "none"
	}
	if text, is := v.(string); is {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
