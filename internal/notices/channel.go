package notices

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

const (
	maxRecipients = 20
	maxAddress    = 254 // characters of an e-mail address
)

// ChannelKind is the protocol of a channel.
type ChannelKind string

// The kinds of channels.
const (
	// Webhook is a POST of JSON, signed by Standard Webhooks.
	Webhook ChannelKind = "webhook"
	// Slack is a POST of {"text": ...}, which Slack, Mattermost, Discord and others accept.
	Slack ChannelKind = "slack"
	// Email uses the mail server of the installation.
	Email ChannelKind = "email"
	// Alertmanager uses the API v2 of an Alertmanager.
	Alertmanager ChannelKind = "alertmanager"
)

// ChannelKinds returns every kind of channel.
func ChannelKinds() []ChannelKind { return []ChannelKind{Webhook, Slack, Email, Alertmanager} }

// Channel is the destination of notices. It refers to the tenant's secrets by name and holds no
// secret value.
type Channel struct {
	Kind ChannelKind `json:"kind"`
	// URL is set for webhook, slack and alertmanager; empty: a secret holds it.
	URL string `json:"url,omitempty"`
	// URLSecret names the secret that holds the URL, such as an incoming webhook of Slack; empty:
	// none.
	URLSecret string `json:"urlSecret,omitempty"`
	// TokenSecret names the secret that is sent as a bearer token; empty: none.
	TokenSecret string `json:"tokenSecret,omitempty"`
	// To holds the recipients of email.
	To []string `json:"to,omitempty"`
	// Severity is the severity label of alerts; empty: none.
	Severity string `json:"severity,omitempty"`
	// AlertLabels names the labels of the endpoint that are copied to alerts.
	AlertLabels []string `json:"alertLabels,omitempty"`
}

// keepsState reports whether the receiver is a program, which keeps an episode open until it
// receives the end.
func (k ChannelKind) keepsState() bool { return k == Webhook || k == Alertmanager }

// sameReceiver reports whether two channels lead to the same receiver with the same alert identity.
func (c Channel) sameReceiver(other Channel) bool {
	return c.Kind == other.Kind && c.URL == other.URL && c.URLSecret == other.URLSecret &&
		c.Severity == other.Severity && slices.Equal(c.AlertLabels, other.AlertLabels)
}

// Secrets returns the names of the secrets that the channel refers to.
func (c Channel) Secrets() []string {
	var names []string
	for _, name := range []string{c.URLSecret, c.TokenSecret} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Permissions decides which destinations channels may use.
type Permissions interface {
	// CheckURL returns the fault of a URL, or nil; Field is left empty.
	CheckURL(url string) *errs.Field
	// CheckRecipient returns the fault of an e-mail address, or nil; Field is left empty.
	CheckRecipient(address string) *errs.Field
}

// address is a URL that is printed with its path masked. It compares by its full value, so that the
// audit log detects a change.
type address string

// String returns the URL with its path and query masked.
func (a address) String() string {
	u, err := url.Parse(string(a))
	if err != nil {
		return auditlog.Mask
	}
	shown := u.Scheme + "://" + u.Host
	if u.Path+u.RawQuery+u.Fragment != "" {
		shown += "/" + auditlog.Mask
	}
	return shown
}

// MarshalJSON returns the JSON form of String.
func (a address) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// redacted returns the channel in its form for the audit log.
func (c Channel) redacted() map[string]any {
	doc := map[string]any{"kind": string(c.Kind)}
	if c.URL != "" {
		doc["url"] = address(c.URL)
	}
	if c.URLSecret != "" {
		doc["urlSecret"] = c.URLSecret
	}
	if c.TokenSecret != "" {
		doc["tokenSecret"] = c.TokenSecret
	}
	if len(c.To) > 0 {
		doc["to"] = c.To
	}
	if c.Severity != "" {
		doc["severity"] = c.Severity
	}
	if len(c.AlertLabels) > 0 {
		doc["alertLabels"] = c.AlertLabels
	}
	return doc
}

func (c Channel) check(bad *complaints, by Permissions) {
	c.checkAlert(bad)
	switch c.Kind {
	case Webhook, Slack, Alertmanager:
		c.checkHTTP(bad, by)
	case Email:
		c.checkEmail(bad, by)
	default:
		bad.complain("channel.kind", "unknown_value", "must be webhook, slack, email or alertmanager")
	}
}

func (c Channel) checkHTTP(bad *complaints, by Permissions) {
	switch {
	case c.URL == "" && c.URLSecret == "":
		bad.complain("channel.url", "required", "must be the URL that notices go to, unless urlSecret names the secret that holds it")
	case c.URL != "" && c.URLSecret != "":
		bad.complain("channel.urlSecret", "url_twice", "must be left out where url is given")
	case c.URL != "":
		if f := by.CheckURL(c.URL); f != nil {
			bad.complain("channel.url", f.Code, f.Message)
		}
	}
	for field, name := range map[string]string{"channel.urlSecret": c.URLSecret, "channel.tokenSecret": c.TokenSecret} {
		if name != "" && !secrets.ValidName(name) {
			bad.complain(field, "name_invalid", "must name a secret of yours, such as slack-url")
		}
	}
	if len(c.To) > 0 {
		bad.complain("channel.to", "not_for_channel", "must be left out unless the channel is email")
	}
}

func (c Channel) checkEmail(bad *complaints, by Permissions) {
	for field, text := range map[string]string{"channel.url": c.URL, "channel.urlSecret": c.URLSecret, "channel.tokenSecret": c.TokenSecret} {
		if text != "" {
			bad.complain(field, "not_for_channel", "must be left out where the channel is email")
		}
	}
	switch n := len(c.To); {
	case n == 0:
		bad.complain("channel.to", "required", "must name who gets the mail, such as [\"oncall@example.com\"]")
	case n > maxRecipients:
		bad.complain("channel.to", "too_many", "must be at most 20 addresses")
	}
	for i, address := range c.To[:min(len(c.To), maxRecipients)] {
		if f := checkAddress(address, by); f != nil {
			bad.complain(fmt.Sprintf("channel.to[%d]", i), f.Code, f.Message)
		}
	}
}

// checkAddress returns the fault of a recipient. Only a bare address is valid, because it is
// written into the SMTP envelope.
func checkAddress(address string, by Permissions) *errs.Field {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || !short(address, maxAddress) || strings.ContainsAny(address, " \t\"<>(),;") || !ascii(address) {
		return &errs.Field{Code: "address_invalid", Message: "must be a plain address such as oncall@example.com"}
	}
	return by.CheckRecipient(address)
}

func ascii(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(b byte) bool { return b >= 0x80 })
}

// JudgeRecipient returns the fault of an address. mail reports whether a mail server is configured;
// domains are the allowed domains, none for all.
func JudgeRecipient(address string, mail bool, domains []string) *errs.Field {
	switch domain := strings.ToLower(address[strings.LastIndexByte(address, '@')+1:]); {
	case !mail:
		return &errs.Field{Code: "mail_unavailable", Message: "cannot be used: this installation sends no mail, unless its operator sets RUBATO_SMTP_ADDRESS"}
	case len(domains) > 0 && !slices.Contains(domains, domain):
		return &errs.Field{Code: "recipient_forbidden", Message: "must be an address at a domain that the operator allows: " + strings.Join(domains, ", ")}
	default:
		return nil
	}
}
