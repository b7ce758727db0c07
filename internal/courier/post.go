package courier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"rubato/internal/egress"
	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// post sends notices as a POST of JSON. It implements channel.
type post struct {
	guarded

	cfg ChannelsConfig
	// complete adds the body and the headers of the kind to a request that has the URL and headers
	// of the rule.
	complete func(r *egress.Request, p *notices.Delivery, set *secrets.Set) error
}

// send implements channel.
func (c post) send(ctx context.Context, p *notices.Delivery) notices.Result {
	set, err := c.cfg.Secrets.At(ctx, p.TenantID, p.SecretsVersion)
	if err != nil {
		return failed(errors.New("the secrets of the tenant cannot be read at the moment"))
	}
	r, err := request(p, set)
	if err == nil {
		err = c.complete(&r, p, set)
	}
	if err != nil {
		return failed(err)
	}
	r.Tenant, r.Allowance = p.TenantID, c.cfg.Allowances.Of(p.TenantID)
	r.Timeout = sendTimeout
	pass, refused := c.admit(hosts.Key{Scope: p.TenantID, Host: egress.Server(r.URL)}, p)
	if refused != nil {
		return *refused
	}
	answer, err := c.cfg.Caller.Do(ctx, r)
	result := judge(answer, err)
	c.receivers.End(pass, verdict(answer, err), asked(result))
	return result
}

// verdict returns what a request says about its receiver.
func verdict(answer egress.Response, err error) hosts.Verdict {
	if failure, ok := errors.AsType[*egress.Error](err); ok && !failure.Reason.OfTarget() {
		return hosts.Neutral
	}
	if err != nil || answer.StatusCode >= http.StatusInternalServerError {
		return hosts.Failure
	}
	return hosts.Success
}

// asked returns the instant before which the receiver wants no request; zero: it did not say.
func asked(r notices.Result) time.Time {
	if r.Asked == 0 {
		return time.Time{}
	}
	return time.Now().Add(r.Asked)
}

// request returns a request to the rule's receiver, without a body.
func request(p *notices.Delivery, set *secrets.Set) (egress.Request, error) {
	r := egress.Request{
		Method: http.MethodPost,
		URL:    p.Channel.URL,
		Header: http.Header{},
		Meta:   http.Header{"Content-Type": {"application/json"}},
	}
	if name := p.Channel.URLSecret; name != "" {
		value, err := set.Secret(name)
		if err != nil {
			return r, err
		}
		r.URL = strings.TrimSpace(value)
	}
	if name := p.Channel.TokenSecret; name != "" {
		value, err := set.Secret(name)
		if err != nil {
			return r, err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(value))
	}
	return r, nil
}

// encode sets the JSON body of a request.
func encode(r *egress.Request, body any) (err error) {
	if r.Body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("encoding the notice: %w", err)
	}
	return nil
}

// judge returns the result of a request. Only the status of the answer is kept, because its content
// is untrusted. The URL is removed from errors, because it may be a secret.
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
