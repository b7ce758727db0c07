package endpoints

import "rubato/internal/governor"

// Priority orders the due runs of a tenant while they have to wait: a run goes before every other
// one that came due less than a minute earlier for each step between them.
type Priority int16

// The priorities.
const (
	Low Priority = iota - 1
	Normal
	High
	Critical
)

// PriorityName is a priority as the API names it.
type PriorityName string

// NormalPriority is the default.
const NormalPriority PriorityName = "normal"

// Rank returns the priority of a name.
func (n PriorityName) Rank() (p Priority, known bool) {
	switch n {
	case "low":
		return Low, true
	case NormalPriority:
		return Normal, true
	case "high":
		return High, true
	case "critical":
		return Critical, true
	default:
		return Normal, false
	}
}

// Priority returns the priority of the planned run: that of the one-off run that is planned, or of
// the endpoint.
func (e *Endpoint) Priority() Priority {
	if next := e.State.OneOffs.Next; e.State.Due.Source == governor.SourceManual && next != nil && next.Slot.Equal(e.State.Due.Slot) {
		return next.Priority
	}
	p, _ := e.Spec.Priority.Rank()
	return p
}
