package courier

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// Secrets returns what a tenant keeps.
type Secrets interface {
	// At returns the secrets of a tenant at a version or a later one.
	At(ctx context.Context, tenant [16]byte, version int64) (*secrets.Set, error)
}

// Caller makes calls past the guard.
type Caller interface {
	// Do makes a call and returns the answer, whatever its status.
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
}

// Allowances say what a tenant may call besides what everybody may.
type Allowances interface {
	// Of returns it, or nil.
	Of(tenant [16]byte) *egress.Allowance
}

// Tests notes tests of rules.
type Tests interface {
	// BeginNoticeTest notes the test of a rule in the log of changes, and returns what is sent for it.
	BeginNoticeTest(ctx context.Context, by auditlog.Actor, r notices.Rule) (*notices.Delivery, error)
}

// ChannelsConfig is what channels are made of.
type ChannelsConfig struct {
	Secrets    Secrets
	Caller     Caller
	Allowances Allowances
	Mail       Mail   // how mail goes out; the zero value: it does not
	Tokens     Tokens // of Mail.Grant; nil where that is not set
	Tests      Tests  // nil where nothing is tested
	// PublicURL is where people reach the console, without a slash at the end; empty: notices have no links.
	PublicURL string
}

// Channels are the ways by which notices go out. They are safe for concurrent use. They implement notices.Sender.
type Channels struct {
	tests  Tests
	public string
	byKind map[notices.ChannelKind]channel
}

// channel delivers notices in one way. Each kind has a file of its own.
type channel interface {
	// send makes one attempt to deliver a notice, until ctx ends.
	send(ctx context.Context, p *notices.Delivery) notices.Result
}

// NewChannels returns channels.
func NewChannels(c ChannelsConfig) *Channels {
	return &Channels{tests: c.Tests, public: c.PublicURL, byKind: map[notices.ChannelKind]channel{
		notices.Webhook:      post{c, webhookRequest},
		notices.Slack:        post{c, slackRequest},
		notices.Alertmanager: post{c, alertmanagerRequest},
		notices.Email:        mailer{c.Mail, c.Tokens},
	}}
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

// send sends a parcel once, by its channel.
func (c *Channels) send(ctx context.Context, p *notices.Delivery) notices.Result {
	by, known := c.byKind[p.Channel.Kind]
	if !known {
		return failed(fmt.Errorf("the channel %q is not known to this version", p.Channel.Kind))
	}
	p.PublicURL = c.public
	return by.send(ctx, p)
}

func failed(err error) notices.Result { return notices.Result{Error: shorten(err.Error())} }

// maxError is how much of an error is kept.
const maxError = 500

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxError {
		return string(runes[:maxError-1]) + "…"
	}
	return text
}
