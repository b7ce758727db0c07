package config

import (
	"errors"
	"net/mail"
	"slices"
	"strings"
)

// The names that say how mail goes out.
const (
	smtpAddress  = "RUBATO_SMTP_ADDRESS"
	smtpFrom     = "RUBATO_SMTP_FROM"
	smtpUsername = "RUBATO_SMTP_USERNAME"
	smtpPassword = "RUBATO_SMTP_PASSWORD"
	smtpSecurity = "RUBATO_SMTP_SECURITY"
)

// Mail is the mail server that notices go out by.
type Mail struct {
	Address  string // host:port; empty: no mail goes out
	From     string
	Username string // empty: nobody signs in
	Password string
	Security string   // starttls, tls or none
	Domains  []string // to which mail may go, in lower case; nil: to all
}

// mailSettings returns the settings of the mail server.
func mailSettings() []Setting {
	return []Setting{
		{
			Name: smtpAddress, Doc: "the mail server that notices go out by, as host:port, such as mail.example.com:587; no mail goes out unless set",
			set:  func(c *Config, v string) error { return address(&c.Mail.Address, v) },
			show: func(c Config) string { return c.Mail.Address },
		},
		{
			Name: smtpFrom, Doc: "the address that mail comes from, such as rubato@example.com",
			set:  func(c *Config, v string) error { return sender(&c.Mail.From, v) },
			show: func(c Config) string { return c.Mail.From },
		},
		{
			Name: smtpUsername, Doc: "whom to sign in to the mail server as; nobody unless set",
			set:  func(c *Config, v string) error { return printable(&c.Mail.Username, v) },
			show: func(c Config) string { return c.Mail.Username },
		},
		{
			Name: smtpPassword, Doc: "the password for it", Secret: true,
			set:  func(c *Config, v string) error { return printable(&c.Mail.Password, v) },
			show: func(c Config) string { return c.Mail.Password },
		},
		{
			Name: smtpSecurity, Default: "starttls", Doc: "how the connection to the mail server is protected: starttls, tls from the first byte, or none, which signs nobody in",
			set:  func(c *Config, v string) error { return security(&c.Mail.Security, v) },
			show: func(c Config) string { return c.Mail.Security },
		},
		{
			Name: "RUBATO_SMTP_DOMAINS", Doc: "comma-separated domains to whose addresses mail may go, such as example.com; all unless set",
			set:  func(c *Config, v string) error { return domains(&c.Mail.Domains, v) },
			show: func(c Config) string { return strings.Join(c.Mail.Domains, ",") },
		},
	}
}

func sender(target *string, value string) error {
	parsed, err := mail.ParseAddress(value)
	if err != nil || parsed.Address != value {
		return errors.New("must be one plain address, such as rubato@example.com")
	}
	*target = value
	return nil
}

func security(target *string, value string) error {
	if !slices.Contains([]string{"starttls", "tls", "none"}, value) {
		return errors.New("must be starttls, tls or none")
	}
	*target = value
	return nil
}

func domains(target *[]string, value string) error {
	var list []string
	for domain := range strings.SplitSeq(value, ",") {
		domain = strings.ToLower(strings.TrimSpace(domain))
		if domain == "" || strings.ContainsAny(domain, "@/: ") || !strings.Contains(domain, ".") {
			return errors.New("must be domains such as example.com, separated by commas")
		}
		list = append(list, domain)
	}
	*target = list
	return nil
}

// halfMail returns a sentence where mail could not go out although a server is named, or a password would be of no use.
func halfMail(m Mail, broken map[string]bool) []string {
	if broken[smtpAddress] || broken[smtpFrom] || broken[smtpUsername] || broken[smtpPassword] || broken[smtpSecurity] {
		return nil
	}
	var problems []string
	if (m.Address == "") != (m.From == "") {
		problems = append(problems, smtpAddress+" and "+smtpFrom+" must be set together")
	}
	if (m.Username == "") != (m.Password == "") {
		problems = append(problems, smtpUsername+" and "+smtpPassword+" must be set together")
	}
	if m.Password != "" && m.Security == "none" {
		problems = append(problems, smtpPassword+" is not sent in the clear: "+smtpSecurity+" must be starttls or tls")
	}
	return problems
}
