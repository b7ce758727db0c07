package config

import (
	"errors"
	"net/mail"
	"regexp"
	"slices"
	"strings"
)

// Names of the mail settings that code refers to.
const (
	smtpAddress  = "RUBATO_SMTP_ADDRESS"
	smtpFrom     = "RUBATO_SMTP_FROM"
	smtpUsername = "RUBATO_SMTP_USERNAME"
	smtpPassword = "RUBATO_SMTP_PASSWORD"
	smtpSecurity = "RUBATO_SMTP_SECURITY"
	smtpTokenURL = "RUBATO_SMTP_TOKEN_URL"
	smtpClientID = "RUBATO_SMTP_CLIENT_ID"
	smtpClient   = "RUBATO_SMTP_CLIENT_SECRET"
)

// Mail holds the mail server for notices.
type Mail struct {
	// Address is host:port; empty disables mail.
	Address string
	// Hello is the name in EHLO. The default is the host's name if it has a dot, otherwise the
	// domain of From.
	Hello string
	// From is an address, or a name and an address such as "Rubato <rubato@example.com>".
	From string
	// Username is empty if no AUTH is used.
	Username string
	Password string
	// Security is starttls, tls or none.
	Security string
	// Domains are the permitted recipient domains, in lower case; nil permits all.
	Domains []string
	Token   MailToken
}

// MailToken holds the OAuth 2 token server for the mail server.
type MailToken struct {
	// URL is that of the token server; empty if AUTH uses the password.
	URL          string
	ClientID     string
	ClientSecret string
	// Scopes are the requested scopes; nil requests none.
	Scopes []string
}

// mailSettings returns the settings of the mail server.
func mailSettings() []Setting {
	return []Setting{
		{
			Name: smtpAddress,
			Doc:  "mail server for notices, as host:port, such as mail.example.com:587; default: mail is disabled",
			set:  func(c *Config, v string) error { return address(&c.Mail.Address, v) },
			show: func(c Config) string { return c.Mail.Address },
		},
		{
			Name: "RUBATO_SMTP_HELLO",
			Doc:  "name in EHLO, such as rubato.example.com; default: the host's name if it has a dot, otherwise the domain of RUBATO_SMTP_FROM",
			set:  func(c *Config, v string) error { return domainName(&c.Mail.Hello, v) },
			show: func(c Config) string { return c.Mail.Hello },
		},
		{
			Name: smtpFrom,
			Doc:  "sender of mail: an address such as rubato@example.com, or a name and an address such as Rubato <rubato@example.com>",
			set:  func(c *Config, v string) error { return sender(&c.Mail.From, v) },
			show: func(c Config) string { return c.Mail.From },
		},
		{
			Name: smtpUsername,
			Doc:  "user name for AUTH at the mail server; default: no AUTH",
			set:  func(c *Config, v string) error { return printable(&c.Mail.Username, v) },
			show: func(c Config) string { return c.Mail.Username },
		},
		{
			Name:   smtpPassword,
			Doc:    "password for AUTH PLAIN or LOGIN, whichever the mail server offers",
			Secret: true,
			set:    func(c *Config, v string) error { return printable(&c.Mail.Password, v) },
			show:   func(c Config) string { return c.Mail.Password },
		},
		{
			Name:    smtpSecurity,
			Default: "starttls",
			Doc:     "encryption of the connection to the mail server: starttls, tls (from the first byte) or none (AUTH is then not possible)",
			set:     func(c *Config, v string) error { return security(&c.Mail.Security, v) },
			show:    func(c Config) string { return c.Mail.Security },
		},
		{
			Name: "RUBATO_SMTP_DOMAINS",
			Doc:  "comma-separated domains to which mail may be sent, such as example.com; default: all",
			set:  func(c *Config, v string) error { return domains(&c.Mail.Domains, v) },
			show: func(c Config) string { return strings.Join(c.Mail.Domains, ",") },
		},
		{
			Name: smtpTokenURL,
			Doc:  "URL of the OAuth 2 token server for AUTH XOAUTH2 instead of a password, with the client credentials grant; the egress rules apply",
			set:  func(c *Config, v string) error { return tokenURL(&c.Mail.Token.URL, v) },
			show: func(c Config) string { return c.Mail.Token.URL },
		},
		{
			Name: smtpClientID,
			Doc:  "client ID at the token server",
			set:  func(c *Config, v string) error { return printable(&c.Mail.Token.ClientID, v) },
			show: func(c Config) string { return c.Mail.Token.ClientID },
		},
		{
			Name:   smtpClient,
			Doc:    "client secret at the token server",
			Secret: true,
			set:    func(c *Config, v string) error { return printable(&c.Mail.Token.ClientSecret, v) },
			show:   func(c Config) string { return c.Mail.Token.ClientSecret },
		},
		{
			Name: "RUBATO_SMTP_TOKEN_SCOPES",
			Doc:  "comma-separated scopes of the access token, such as https://outlook.office365.com/.default",
			set:  func(c *Config, v string) error { return scopes(&c.Mail.Token.Scopes, v) },
			show: func(c Config) string { return strings.Join(c.Mail.Token.Scopes, ",") },
		},
	}
}

func sender(target *string, value string) error {
	parsed, err := mail.ParseAddress(value)
	if err != nil || len(value) > 512 || strings.ContainsFunc(parsed.Address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be one address, such as rubato@example.com, or a name and an address, such as Rubato <rubato@example.com>")
	}
	*target = value
	return nil
}

// domainNames matches host names with a domain, which EHLO requires.
var domainNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$`)

func domainName(target *string, value string) error {
	if len(value) > 253 || !domainNames.MatchString(value) {
		return errors.New("must be the name of a host with its domain, such as rubato.example.com")
	}
	*target = value
	return nil
}

func tokenURL(target *string, value string) error {
	u, err := httpURL(value)
	if err != nil || u.User != nil || u.Fragment != "" {
		return errors.New("must be a URL without a user or a fragment, such as https://login.example.com/oauth2/token")
	}
	*target = value
	return nil
}

func scopes(target *[]string, value string) error {
	var list []string
	for scope := range strings.SplitSeq(value, ",") {
		var word string
		if err := printable(&word, strings.TrimSpace(scope)); err != nil || word == "" {
			return errors.New("must be scopes without spaces, separated by commas")
		}
		list = append(list, word)
	}
	*target = list
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

// mailProblems returns a sentence for every mail setting that has no effect without another one. It
// returns none if a mail setting is invalid, because that error is enough.
func mailProblems(m Mail, broken map[string]bool) []string {
	for _, name := range []string{smtpAddress, smtpFrom, smtpUsername, smtpPassword, smtpSecurity, smtpTokenURL, smtpClientID, smtpClient} {
		if broken[name] {
			return nil
		}
	}
	var problems []string
	complain := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, problem)
		}
	}
	byToken := m.Token.URL != ""
	complain((m.Address == "") != (m.From == ""), smtpAddress+" and "+smtpFrom+" must be set together")
	complain(!byToken && (m.Username == "") != (m.Password == ""), smtpUsername+" and "+smtpPassword+" must be set together")
	complain(byToken && m.Password != "", smtpPassword+" must not be set together with "+smtpTokenURL+"")
	complain(byToken && (m.Username == "" || m.Token.ClientID == "" || m.Token.ClientSecret == ""),
		smtpTokenURL+" needs "+smtpUsername+", "+smtpClientID+" and "+smtpClient)
	complain(!byToken && m.Token.ClientID+m.Token.ClientSecret != "", smtpClientID+" and "+smtpClient+" need "+smtpTokenURL)
	complain(m.Username != "" && m.Security == "none",
		smtpPassword+" or an access token is not sent in the clear: "+smtpSecurity+" must be starttls or tls")
	return problems
}
