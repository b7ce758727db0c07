package courier

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	BeginNoticeTest(ctx context.Context, by auditlog.Actor, r notices.Rule) (*notices.Parcel, error)
}

// ChannelsConfig is what channels are made of.
type ChannelsConfig struct {
	Secrets    Secrets
	Caller     Caller
	Allowances Allowances
	Mail       Mail  // how mail goes out; the zero value: it does not
	Tests      Tests // nil where nothing is tested
}

// Channels are the ways by which notices go out. They are safe for concurrent use. They implement notices.Sender.
type Channels struct {
	cfg ChannelsConfig
}

// NewChannels returns channels.
func NewChannels(c ChannelsConfig) *Channels { return &Channels{cfg: c} }

// Test implements notices.Sender.
func (c *Channels) Test(ctx context.Context, by auditlog.Actor, r notices.Rule) (notices.Result, error) {
	p, err := c.cfg.Tests.BeginNoticeTest(ctx, by, r)
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
func (c *Channels) send(ctx context.Context, p *notices.Parcel) notices.Result {
	if p.Channel.Kind == notices.Email {
		note, err := c.cfg.Mail.send(ctx, p)
		if err != nil {
			return failed(err)
		}
		return notices.Result{Note: note}
	}
	set, err := c.cfg.Secrets.At(ctx, p.TenantID, p.SecretsVersion)
	if err != nil {
		return failed(errors.New("the secrets of the tenant cannot be read at the moment"))
	}
	r, err := request(p, set)
	if err != nil {
		return failed(err)
	}
	r.Allowance = c.cfg.Allowances.Of(p.TenantID)
	r.Timeout = sendTimeout
	answer, err := c.cfg.Caller.Do(ctx, r)
	return judge(answer, err)
}

func failed(err error) notices.Result { return notices.Result{Error: shorten(err.Error())} }

// judge says what came of a call. Nothing of what a receiver answers is kept but the status: it may be anything. Nor is the address that
// was called, which may be a secret.
func judge(answer egress.Response, err error) notices.Result {
	r := notices.Result{StatusCode: answer.StatusCode}
	switch {
	case err != nil:
		text := err.Error()
		if _, what, found := strings.Cut(text, ": "); found && strings.HasPrefix(text, "calling ") {
			text = what
		}
		r.Error = shorten("the receiver could not be reached: " + text)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		r.Error = fmt.Sprintf("the receiver answered with status %d", answer.StatusCode)
		now := time.Now()
		if at, asked := egress.RetryAfter(answer.Header, now); asked {
			r.Asked = at.Sub(now)
		}
	}
	return r
}

// maxError is how much of an error is kept.
const maxError = 500

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxError {
		return string(runes[:maxError-1]) + "…"
	}
	return text
}
