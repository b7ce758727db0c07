package endpoints

import "time"

// Version is the configuration of an endpoint from one change to the next.
type Version struct {
	Number    int64
	ChangedAt time.Time
	ChangedBy string   // the name of the key; empty: written before versions were kept
	AuditID   [16]byte // of the entry of the audit log; zero: written before versions were kept
	Spec      Spec
	// Changes is the names of the fields that differ from the version before; nil if that is not kept, or if there is none.
	Changes []string
}
