package app

import (
	"rubato/internal/courier"
	"rubato/internal/oauth2"
	noticestore "rubato/internal/store/notices"
)

// courier returns the loop that delivers notices.
func (c *Core) courier() *courier.Courier {
	return courier.New(courier.Config{
		Store:      noticestore.NewStore(c.DB, &c.States.Rules),
		Channels:   c.Channels(),
		Logger:     c.Logger,
		Registerer: c.Registry,
	})
}

// Channels returns the senders of notices: webhooks and mail.
func (c *Core) Channels() *courier.Channels {
	s := c.Settings.Mail
	// Outbound also creates c.mailTokens.
	caller := c.Outbound()
	return courier.NewChannels(courier.ChannelsConfig{
		Secrets:    c.Vault,
		Caller:     caller,
		Allowances: c.Allowances,
		Tests:      noticestore.NewStore(c.DB, &c.States.Rules),
		Tokens:     c.mailTokens,
		PublicURL:  c.Settings.API.PublicURL,
		Mail: courier.Mail{
			Address:  s.Address,
			Hello:    s.Hello,
			From:     s.From,
			Username: s.Username,
			Password: s.Password,
			Security: courier.Security(s.Security),
			Domains:  s.Domains,
			Grant: oauth2.Grant{
				TokenURL:     s.Token.URL,
				ClientID:     s.Token.ClientID,
				ClientSecret: s.Token.ClientSecret,
				Scopes:       s.Token.Scopes,
			},
		},
	})
}
