// Package deadletters keeps runs that were given up, so that they can be sent again: their reason,
// their request as it was, and the head of the response. It decides neither when a run is given up,
// which is [endpoints.Endpoint.AfterRun], nor when its replay runs.
package deadletters

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/ids"
	"rubato/internal/runs"
	"rubato/internal/secrets"
)

const (
	// MaxPerTenant bounds the dead letters of a tenant. The sweeper deletes the oldest beyond it.
	MaxPerTenant = 10_000
	// MaxBody is the number of bytes that are kept of a response.
	MaxBody = 4096
)

// ID identifies a dead letter. It is the ID of the run that was given up, with another prefix.
type ID [16]byte

var idKind = ids.Kind{Prefix: "dl_", Noun: "dead letter"}

// ParseID parses the form that String writes; see [ids.Kind.Parse].
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns dl_ and the UUID in its canonical form.
func (id ID) String() string { return idKind.String(id) }

// State is the state of a dead letter. An open one is handled once.
type State string

// The states.
const (
	Open      State = "open"
	Replayed  State = "replayed"
	Discarded State = "discarded"
)

// Letter is a dead letter. Fields that do not apply are zero.
type Letter struct {
	ID           ID
	TenantID     [16]byte
	EndpointID   endpoints.ID // or the ID of the call
	Call         bool
	ScheduledFor time.Time // due time of the run
	CreatedAt    time.Time // when the run was given up
	Attempt      int       // number of the last attempt
	InfraAttempt int       // runs that infrastructure lost
	Status       runs.Status
	Reason       runs.Reason
	StatusCode   int
	Error        string
	ContentType  string
	Body         []byte // head of the response
	Sealed       secrets.Sealed

	State         State
	HandledAt     time.Time
	HandledBy     string
	HandledReason string
	// ReplaySlot is the due time of the one-off run or the call that replays it.
	ReplaySlot time.Time
	// ReplayCall is the call that replays it; zero: a one-off run of its endpoint.
	ReplayCall calls.ID
}

// RunID returns the run that was given up.
func (l Letter) RunID() runs.ID { return runs.ID(l.ID) }

// ReplayID returns the first attempt of the replay.
func (l Letter) ReplayID() runs.ID {
	if l.ReplayCall != (calls.ID{}) {
		return runs.FirstAttempt(l.ReplaySlot, l.ReplayCall)
	}
	return runs.FirstAttempt(l.ReplaySlot, l.EndpointID)
}

// Object returns the reference to the dead letter in the audit log.
func (l Letter) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.DeadLetter, ID: l.ID.String()}
}

// Content is the request of a dead letter.
type Content struct {
	// Call means that the run was that of a call.
	Call    bool                   `json:"call,omitempty"`
	Request endpoints.WholeRequest `json:"request"`
	// Key is the Idempotency-Key of the request.
	Key string `json:"key"`
	// DueFor is the due time that the templates of the request use.
	DueFor time.Time `json:"dueFor,omitzero"`
	// Version is the version of the configuration that made the request; 0: unknown.
	Version int64 `json:"version,omitempty"`
}

// Identity returns the identity that the content of a dead letter is sealed for.
func Identity(tenant [16]byte, id ID) secrets.Identity {
	return secrets.Identity{
		Tenant: tenant,
		Kind:   secrets.DeadLetter,
		Name:   id.String(),
	}
}

// Seal encrypts the content. Without a key it stays readable and the key ID is empty: then there
// are no secrets either, and a run must not be kept from its end.
func (c Content) Seal(keyring *secrets.Keyring, tenant [16]byte, id ID) (secrets.Sealed, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return secrets.Sealed{}, fmt.Errorf("encoding the request of %s: %w", id, err)
	}
	sealed, err := keyring.Seal(Identity(tenant, id), string(raw))
	if errors.Is(err, secrets.ErrNoKeys) {
		return secrets.Sealed{Data: raw}, nil
	}
	return sealed, err
}

// Open decrypts the content of a dead letter. The error is a [secrets.ErrUnreadable] if its key is
// missing.
func (l Letter) Open(keyring *secrets.Keyring) (c Content, err error) {
	raw := l.Sealed.Data
	if l.Sealed.KeyID != "" {
		opened, err := keyring.Open(Identity(l.TenantID, l.ID), l.Sealed)
		if err != nil {
			return c, fmt.Errorf("reading the request of dead letter %s: %w", l.ID, err)
		}
		raw = []byte(opened.Reveal())
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("decoding the request of dead letter %s: %w", l.ID, err)
	}
	return c, nil
}
