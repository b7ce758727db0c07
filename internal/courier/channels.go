package courier

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/egress"
	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// Secrets reads the secrets of tenants.
type Secrets interface {
	// At returns the secrets of a tenant at a version or a later one.
	At(ctx context.Context, tenant [16]byte, version int64) (*secrets.Set, error)
}

// Caller sends HTTP requests through the egress guard.
type Caller interface {
	// Do sends a request and returns the response, whatever its status.
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
}

// Allowances holds the egress allow lists of tenants, in addition to the common one.
type Allowances interface {
	// Of returns the allowance of a tenant, or nil.
	Of(tenant [16]byte) *egress.Allowance
}

// Tests records tests of rules.
type Tests interface {
	// BeginNoticeTest records the test of a rule in the audit log, and returns the notice to send.
	BeginNoticeTest(ctx context.Context, by auditlog.Actor, r notices.Rule) (*notices.Delivery, error)
}

// ChannelsConfig holds the dependencies of the channels.
type ChannelsConfig struct {
	Secrets    Secrets
	Caller     Caller
	Allowances Allowances
	// Mail is the mail server. Its zero value disables mail.
	Mail Mail
	// Tokens fetches the access tokens of Mail.Grant; nil if no grant is set.
	Tokens Tokens
	// Tests is nil if rules cannot be tested.
	Tests Tests
	// PublicURL is the base URL of the console, without a trailing slash; empty: notices have no
	// links.
	PublicURL string
}

// Channels sends notices by webhook, Slack, Alertmanager and mail. It is safe for concurrent use,
// and implements notices.Sender.
type Channels struct {
	tests  Tests
	public string
	byKind map[notices.ChannelKind]channel
}

// channel sends notices by one protocol. Each kind has a file of its own.
type channel interface {
	// send makes one attempt to deliver a notice, until ctx ends.
	send(ctx context.Context, p *notices.Delivery) notices.Result
}

// guarded has the circuit breakers of receivers, which all channels share.
type guarded struct{ receivers *hosts.Guard }

// admit returns the right to send a notice, or the result without a request while the breaker of
// the receiver is open. A test of a rule is sent in any case.
func (g guarded) admit(receiver hosts.Key, p *notices.Delivery) (hosts.Pass, *notices.Result) {
	pass, again, admitted := g.receivers.Admit(receiver, p.Test)
	if admitted {
		return pass, nil
	}
	return pass, &notices.Result{
		Error: "nothing was sent: the circuit of the receiver is open, because its last requests failed",
		Asked: time.Until(again),
	}
}

// NewChannels returns the channels of every kind.
func NewChannels(c ChannelsConfig) *Channels {
	g := guarded{hosts.NewGuard(0)}
	return &Channels{
		tests:  c.Tests,
		public: c.PublicURL,
		byKind: map[notices.ChannelKind]channel{
			notices.Webhook:      post{g, c, webhookRequest},
			notices.Slack:        post{g, c, slackRequest},
			notices.Alertmanager: post{g, c, alertmanagerRequest},
			notices.Email:        mailer{g, c.Mail, c.Tokens},
		},
	}
}

// Test implements notices.Sender.
func (c *Channels) Test(ctx context.Context, by auditlog.Actor, r notices.Rule) (notices.Result, error) {
	p, err := c.tests.BeginNoticeTest(ctx, by, r)
	if err != nil {
		return notices.Result{}, err
	}
	began := time.Now()
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	result := c.send(sending, p)
	result.Took = time.Since(began)
	return result, nil
}

// send makes one attempt to deliver a notice by its channel.
func (c *Channels) send(ctx context.Context, p *notices.Delivery) notices.Result {
	by, known := c.byKind[p.Channel.Kind]
	if !known {
		return failed(fmt.Errorf("the channel %q is not known to this version", p.Channel.Kind))
	}
	p.PublicURL = c.public
	return by.send(ctx, p)
}

func failed(err error) notices.Result { return notices.Result{Error: shorten(err.Error())} }

// maxError is the maximum length of a stored error, in characters.
const maxError = 500

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxError {
		return string(runes[:maxError-1]) + "…"
	}
	return text
}
