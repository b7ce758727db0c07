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
	maxAddress    = 254 // characters of an address of e-mail
)

// ChannelKind is how a notice goes out.
type ChannelKind string

// The kinds of channels.
const (
	Webhook      ChannelKind = "webhook"      // a POST of JSON, signed by Standard Webhooks
	Slack        ChannelKind = "slack"        // a POST of {"text": ...}, which Slack, Mattermost, Discord and others understand
	Email        ChannelKind = "email"        // by the mail server of the installation
	Alertmanager ChannelKind = "alertmanager" // to the API v2 of an Alertmanager
)

// ChannelKinds returns every kind of channel.
func ChannelKinds() []ChannelKind { return []ChannelKind{Webhook, Slack, Email, Alertmanager} }

// Channel says where notices go. It holds no secret: it names those of the tenant that it needs.
type Channel struct {
	Kind        ChannelKind `json:"kind"`
	URL         string      `json:"url,omitempty"`         // of webhook, slack, alertmanager; empty: a secret holds it
	URLSecret   string      `json:"urlSecret,omitempty"`   // the secret that is the URL, such as an incoming webhook of Slack; empty: none
	TokenSecret string      `json:"tokenSecret,omitempty"` // the secret that is sent as a bearer token; empty: none
	To          []string    `json:"to,omitempty"`          // of email
	Severity    string      `json:"severity,omitempty"`    // of alertmanager: the label of that name; empty: none
	AlertLabels []string    `json:"alertLabels,omitempty"` // of alertmanager: the labels of the endpoint that the alert gets
}

// keepsState reports whether a program reads what goes out, which may keep open what it was told until it is told the end.
func (k ChannelKind) keepsState() bool { return k == Webhook || k == Alertmanager }

// sameReceiver reports whether two channels lead to one receiver, as far as can be told, where an alert keeps its labels.
func (c Channel) sameReceiver(other Channel) bool {
	return c.Kind == other.Kind && c.URL == other.URL && c.URLSecret == other.URLSecret &&
		c.Severity == other.Severity && slices.Equal(c.AlertLabels, other.AlertLabels)
}

// Secrets returns the names of the secrets that the channel needs.
func (c Channel) Secrets() []string {
	var names []string
	for _, name := range []string{c.URLSecret, c.TokenSecret} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Permissions says what channels may reach.
type Permissions interface {
	// CheckURL returns what is wrong with a URL, or nil; Field is left empty.
	CheckURL(url string) *errs.Field
	// CheckRecipient returns what is wrong with an address of e-mail, or nil; Field is left empty.
	CheckRecipient(address string) *errs.Field
}

// address is a URL of which the log hides what follows the host, and yet knows that it has changed.
type address string

// String returns the URL with a mask.
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

// MarshalJSON returns what String does.
func (a address) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// redacted returns the channel as the audit log keeps it.
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

// checkAddress returns what is wrong with an address: it must be one alone, as it is written into the envelope.
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

// JudgeRecipient returns what is wrong with an address where mail goes out at all, and to which domains: to all where there are none.
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
