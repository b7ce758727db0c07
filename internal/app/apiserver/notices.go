package apiserver

import (
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
)

// noticePermissions returns what the channels of a tenant may reach.
func (s server) noticePermissions(tenant [16]byte) notices.Permissions {
	return noticePermissions{Targets: s.Targets().For(tenant), mail: s.Settings.Mail.Address != "", domains: s.Settings.Mail.Domains}
}

// noticePermissions judges channels as the calls of endpoints are judged, and mail by what the operator allows.
type noticePermissions struct {
	endpoints.Targets

	mail    bool     // there is a server for it
	domains []string // to which it may go; nil: to all
}

// CheckRecipient implements notices.Permissions.
func (p noticePermissions) CheckRecipient(address string) *errs.Field {
	return notices.JudgeRecipient(address, p.mail, p.domains)
}
