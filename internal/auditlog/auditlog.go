// Package auditlog defines the entries of the audit log: actor, action, object, and the changed
// members. It stores nothing: the store writes an entry in the transaction of its change, so that
// neither exists without the other.
package auditlog

import (
	"encoding/json"
	"time"
)

// Actor is the author of a change: a tenant, its API key, and the request.
type Actor struct {
	TenantID      [16]byte
	KeyID         [16]byte // zero: no key, but a part of the system
	Name          string   // of the key
	RequestID     string   // empty: no request
	RemoteAddress string   // of the peer, without its port; empty: no request
}

// Action is the kind of a change.
type Action string

// The actions. Those on endpoints are called as the causes of the decisions that they lead to.
const (
	Register      Action = "register"
	Edit          Action = "edit" // of an endpoint, a rule or a maintenance window
	Archive       Action = "archive"
	Pause         Action = "pause"
	Resume        Action = "resume"
	Hint          Action = "hint"
	RunNow        Action = "run_now"
	ResetFailures Action = "reset_failures"
	Stop          Action = "stop" // of an endpoint, requested by its target

	Create  Action = "create"
	Rotate  Action = "rotate"
	Revoke  Action = "revoke"
	Cancel  Action = "cancel"
	Delete  Action = "delete"
	Allow   Action = "allow"
	Test    Action = "test"
	Approve Action = "approve"
	Reject  Action = "reject"
	Undo    Action = "undo"    // of an analysis of the planner
	Retry   Action = "retry"   // of a notice that was given up
	Discard Action = "discard" // of a dead letter
	Drain   Action = "drain"   // of a worker
)

// Act is an action with its actor.
type Act struct {
	By     Actor
	Action Action
}

// Kind is a kind of object.
type Kind string

// The kinds of objects.
const (
	Endpoint    Kind = "endpoint"
	Key         Kind = "key"
	Run         Kind = "run"
	NamedSecret Kind = "secret"
	SigningKey  Kind = "signing_key"
	Tenant      Kind = "tenant"
	Request     Kind = "request" // that was tested without being stored

	Suggestion        Kind = "suggestion" // of the planner
	NoticeRule        Kind = "notice_rule"
	Notice            Kind = "notice"
	MaintenanceWindow Kind = "maintenance_window"
	Budget            Kind = "budget" // of runs, shared by endpoints
	DeadLetter        Kind = "dead_letter"
	Worker            Kind = "worker"
	Chain             Kind = "chain"
	ChainRun          Kind = "chain_run"
	Call              Kind = "call"
	Host              Kind = "host" // with its circuit breaker
)

// Object identifies the changed object.
type Object struct {
	Kind Kind
	ID   string // as users see it
}

// Change is an entry to write.
type Change struct {
	Act
	Object

	Before map[string]any // its JSON before the change, secrets redacted; nil: it did not exist
	After  map[string]any // its JSON after the change, secrets redacted; nil: it was deleted
}

// Members returns the differing members of the two states, and whether the change is recorded: an
// action without a change has no entry, except that a requested run is always recorded.
func (c Change) Members() (old, fresh map[string]any, noted bool) {
	old, fresh = Diff(c.Before, c.After)
	return old, fresh, c.Before == nil || c.After == nil || len(old) > 0 || len(fresh) > 0 || c.Action == RunNow
}

// Entry is one change on record. Before and After hold the members that changed.
type Entry struct {
	ID     ID
	At     time.Time
	By     Actor
	Action Action
	Object Object
	Before json.RawMessage // nil: it did not exist
	After  json.RawMessage // nil: it was deleted
}

// Filter selects entries of one tenant. Zero fields do not filter.
type Filter struct {
	TenantID [16]byte
	Kind     Kind
	ObjectID string
	KeyID    [16]byte // of the actor
	Action   Action
	From, To time.Time // from the first on, before the second
	Before   ID        // only entries with a lower ID: the cursor of a list
	Limit    int       // maximum number of results; must be positive
}
