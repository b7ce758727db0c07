package app

import (
	"rubato/internal/courier"
	"rubato/internal/store"
)

// courier returns what delivers notices.
func (c *Core) courier() *courier.Courier {
	return courier.New(courier.Config{
		Store: store.NewNotices(c.DB), Channels: c.Channels(), Logger: c.Logger, Registerer: c.Registry,
	})
}

// Channels returns the ways by which notices go out.
func (c *Core) Channels() *courier.Channels {
	s := c.Settings.Mail
	return courier.NewChannels(courier.ChannelsConfig{
		Secrets: c.Vault, Caller: c.Outbound(), Allowances: c.Allowances, Tests: store.NewNotices(c.DB),
		Mail: courier.Mail{
			Address: s.Address, From: s.From, Username: s.Username, Password: s.Password, Security: courier.Security(s.Security), Domains: s.Domains,
		},
	})
}
