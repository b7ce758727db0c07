package endpoints

import "time"

// Version is one version of the configuration of an endpoint.
type Version struct {
	Number    int64
	ChangedAt time.Time
	// ChangedBy is the name of the API key. It is empty for a version that is older than the
	// version history.
	ChangedBy string
	// AuditID is the ID of the audit entry. It is zero for a version that is older than the version
	// history.
	AuditID [16]byte
	Spec    Spec
	// Changes lists the names of the fields that differ from the version before; nil if that
	// version is unknown or does not exist.
	Changes []string
}
