package apiserver

import (
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
)

// noticePermissions returns the restrictions on a tenant's notice channels.
func (s server) noticePermissions(tenant [16]byte) notices.Permissions {
	return noticePermissions{
		Targets: s.Targets().For(tenant),
		mail:    s.Settings.Mail.Address != "",
		domains: s.Settings.Mail.Domains,
	}
}

// noticePermissions checks channel URLs by the egress rules, and mail recipients by the operator's
// mail settings.
type noticePermissions struct {
	endpoints.Targets

	// mail is true if a mail server is configured.
	mail bool
	// domains are the permitted recipient domains; nil permits all.
	domains []string
}

// CheckRecipient implements notices.Permissions.
func (p noticePermissions) CheckRecipient(address string) *errs.Field {
	return notices.JudgeRecipient(address, p.mail, p.domains)
}
