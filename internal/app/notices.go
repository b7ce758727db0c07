package app

import (
	"rubato/internal/courier"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store"
)

// courier returns what delivers notices.
func (c *core) courier() *courier.Courier {
	return courier.New(courier.Config{
		Store: store.NewNotices(c.db), Channels: c.channels(), Logger: c.logger, Registerer: c.registry,
	})
}

// channels returns the ways by which notices go out.
func (c *core) channels() *courier.Channels {
	s := c.settings.Mail
	return courier.NewChannels(courier.ChannelsConfig{
		Secrets: c.vault, Caller: c.outbound(), Allowances: c.allowed, Tests: store.NewNotices(c.db),
		Mail: courier.Mail{
			Address: s.Address, From: s.From, Username: s.Username, Password: s.Password, Security: courier.Security(s.Security), Domains: s.Domains,
		},
	})
}

// noticePermissions returns what the channels of a tenant may reach.
func (c *core) noticePermissions(tenant [16]byte) notices.Permissions {
	return noticePermissions{Targets: c.targets().For(tenant), mail: c.settings.Mail.Address != "", domains: c.settings.Mail.Domains}
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
