package app

import (
	"net"
	"net/url"

	"rubato/internal/egress"
	"rubato/internal/oauth2"
	"rubato/internal/store/pg"
	"rubato/internal/telemetry"
)

// Outbound returns the client of all outbound calls of the process. The first call creates it.
func (c *Core) Outbound() *egress.Client {
	c.dial.Do(func() {
		c.outbound = c.newOutbound()
		c.mailTokens = oauth2.New(c.outbound)
	})
	return c.outbound
}

func (c *Core) newOutbound() *egress.Client {
	s := c.Settings.Egress
	return egress.New(egress.Config{
		Rules:     c.rules(),
		UserAgent: userAgent(s.Contact),
		HostSlots: func(tenant [16]byte) egress.HostSlot { return c.hosts.Slot(tenant) },
		Limits: egress.Limits{
			Connect: s.Connect,
			TLS:     s.TLS,
			Header:  s.Header,
			Idle:    s.Idle,
		},
		AllowSkipVerify: s.AllowSkipVerify,
		Proxy:           proxy(s.Proxy),
		Registerer:      c.Registry,
	})
}

// Targets returns the check for URLs and headers of endpoints, with the allow lists of tenants.
func (c *Core) Targets() Targets {
	t := NewTargets(c.rules(), c.Settings.Egress.AllowSkipVerify)
	t.tenants = c.Allowances
	return t
}

// rules returns the egress rules of the settings. They refuse the process's own listeners and its
// database.
func (c *Core) rules() egress.Rules {
	s := c.Settings
	rules := egress.Rules{Allow: s.Egress.Allow, AllowHosts: s.Egress.AllowHosts}
	for _, p := range s.Egress.Ports {
		rules.Ports = append(rules.Ports, egress.PortRange{First: p.First, Last: p.Last})
	}
	rules.Own = append(rules.Own, c.own...)
	for _, address := range []string{s.API.Listen, s.Admin.Listen} {
		if _, port, err := net.SplitHostPort(address); err == nil && port != "0" {
			rules.Own = append(rules.Own, address)
		}
	}
	for _, database := range []string{s.Database.URL, s.Database.DirectURL} {
		rules.Own = append(rules.Own, pg.Addresses(database)...)
	}
	return rules
}

// userAgent returns the User-Agent of outbound calls. It names the operator's contact, so that the
// owner of a target can write to them.
func userAgent(contact string) string {
	agent := "Rubato/" + telemetry.Version()
	if contact != "" {
		agent += " (+" + contact + ")"
	}
	return agent
}

// proxy parses the proxy URL. config validated it, so a parse error cannot happen here.
func proxy(text string) *url.URL {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	return u
}
