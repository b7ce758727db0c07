package app

import (
	"net"
	"net/url"

	"rubato/internal/egress"
	"rubato/internal/store"
	"rubato/internal/telemetry"
)

// egress returns the client of the outbound calls.
func (c *core) egress() *egress.Client {
	s := c.settings.Egress
	return egress.New(egress.Config{
		Rules:           c.rules(),
		UserAgent:       userAgent(s.Contact),
		MaxPerHost:      s.MaxPerHost,
		Limits:          egress.Limits{Connect: s.Connect, TLS: s.TLS, Header: s.Header, Idle: s.Idle},
		AllowSkipVerify: s.AllowSkipVerify,
		Proxy:           proxy(s.Proxy),
		Registerer:      c.registry,
	})
}

// targets judges what may be registered.
func (c *core) targets() targets {
	t := newTargets(c.rules(), c.settings.Egress.AllowSkipVerify)
	t.tenants = c.allowed
	return t
}

// rules are whom the settings let us call.
func (c *core) rules() egress.Rules {
	s := c.settings
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
		rules.Own = append(rules.Own, store.Addresses(database)...)
	}
	return rules
}

// userAgent tells targets who calls, and whom they may ask about it.
func userAgent(contact string) string {
	agent := "Rubato/" + telemetry.Version()
	if contact != "" {
		agent += " (+" + contact + ")"
	}
	return agent
}

// proxy reads a setting that was checked when it was loaded.
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
