package openai

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/hosts"
	"rubato/internal/planner"
	"rubato/internal/planner/untrusted"
)

// settleTimeout bounds the transaction that settles a request's tokens.
const settleTimeout = 5 * time.Second

// cost is the token usage of a request.
type cost struct {
	prompt, completion int64
}

func (c cost) total() int64 { return c.prompt + c.completion }

// request sends one request within the token budget and returns the model's message. The
// reservation is settled in every case, because otherwise failed requests would use up the budget.
func (a *Advisor) request(ctx context.Context, of planner.Account, v *conversation, t turn) (openai.ChatCompletionMessage, cost, error) {
	if rest := a.closedReason(of); rest != nil {
		a.metrics.requests.WithLabelValues(string(rest.Kind)).Inc()
		return openai.ChatCompletionMessage{}, cost{}, a.unavailable(rest)
	}
	reserved, err := a.budget.Reserve(ctx, of, t.prompt+t.answer)
	if err != nil {
		return openai.ChatCompletionMessage{}, cost{}, err
	}
	pass, rest := a.admit(of)
	if rest != nil {
		return openai.ChatCompletionMessage{}, cost{}, errors.Join(a.unavailable(rest), a.settle(ctx, reserved, 0))
	}
	begun := time.Now()
	message, used, failed := a.send(ctx, v, t)
	if failed != nil {
		a.recordFailure(pass, of, failed)
		return message, used, errors.Join(a.plannerError(failed), a.settle(ctx, reserved, used.total()))
	}
	a.metrics.seconds.Observe(time.Since(begun).Seconds())
	a.metrics.requests.WithLabelValues(answered).Inc()
	a.service.End(pass, hosts.Success, time.Time{})
	a.scoped.recordSuccess(of)
	return message, used, a.settle(ctx, reserved, used.total())
}

// send sends the request and returns its usage. If the service may have processed a failed request,
// its upper bound counts as used.
func (a *Advisor) send(ctx context.Context, v *conversation, t turn) (openai.ChatCompletionMessage, cost, *Failure) {
	request := openai.ChatCompletionRequest{
		Model:               a.config.Model,
		Messages:            v.messages,
		Tools:               toolDefinitions(t.tools),
		ToolChoice:          t.choice(),
		MaxCompletionTokens: int(t.answer),
		ReasoningEffort:     a.config.ReasoningEffort,
	}
	if a.config.Temperature != nil {
		// The library omits zero; the smallest positive number means the same to a model.
		request.Temperature = max(float32(*a.config.Temperature), math.SmallestNonzeroFloat32)
	}
	bound := cost{prompt: t.prompt, completion: t.answer}
	ctx, left := traceSent(ctx)
	answer, err := a.client.CreateChatCompletion(ctx, request)
	if err != nil {
		f := failure(ctx, err)
		if f.unbilled(left()) {
			bound = cost{}
		}
		return openai.ChatCompletionMessage{}, bound, f
	}
	used := usageOf(answer.Usage, bound)
	if len(answer.Choices) == 0 {
		return openai.ChatCompletionMessage{}, used, &Failure{Kind: Unreadable}
	}
	return a.withoutKey(answer.Choices[0].Message), used, nil
}

// withoutKey returns a message with the API key redacted. Only the service can have put it there.
func (a *Advisor) withoutKey(m openai.ChatCompletionMessage) openai.ChatCompletionMessage {
	if a.config.Key == "" {
		return m
	}
	m.Content = strings.ReplaceAll(m.Content, a.config.Key, untrusted.Redacted)
	for i := range m.ToolCalls {
		f := &m.ToolCalls[i].Function
		f.Name = strings.ReplaceAll(f.Name, a.config.Key, untrusted.Redacted)
		f.Arguments = strings.ReplaceAll(f.Arguments, a.config.Key, untrusted.Redacted)
	}
	return m
}

// usageOf returns the usage that the service reports, or the upper bound if the report is
// implausible.
func usageOf(u openai.Usage, bound cost) cost {
	prompt, completion := int64(u.PromptTokens), int64(u.CompletionTokens)
	if prompt <= 0 || completion < 0 || prompt > maxReported || completion > maxReported {
		return bound
	}
	return cost{prompt: prompt, completion: completion}
}

// settle records the usage of a reservation, also after the session's context has ended.
func (a *Advisor) settle(ctx context.Context, r planner.Reservation, used int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return a.budget.Settle(ctx, r, used)
}

// closedReason returns the reason why no request may be sent for an account now, or nil.
func (a *Advisor) closedReason(of planner.Account) *Failure {
	if until, shut := a.throttle.active(); shut {
		return &Failure{Kind: Throttled, RetryAt: until}
	}
	if until := a.service.OpenUntil(model); !until.IsZero() {
		return &Failure{Kind: BreakerOpen, RetryAt: until}
	}
	if until, resting := a.scoped.openUntil(of); resting {
		return &Failure{Kind: BreakerOpen, RetryAt: until}
	}
	return nil
}

// admit admits a request past the circuit breakers, or returns the reason for its refusal. After a
// cooldown a few requests are probes; others are refused until their results are known.
func (a *Advisor) admit(of planner.Account) (hosts.Pass, *Failure) {
	if until, resting := a.scoped.admit(of); resting {
		return hosts.Pass{}, &Failure{Kind: BreakerOpen, RetryAt: until}
	}
	pass, again, admitted := a.service.Admit(model, false)
	if !admitted {
		return pass, &Failure{Kind: BreakerOpen, RetryAt: again}
	}
	return pass, nil
}

// recordFailure counts a failure against the endpoint, tenant or service that caused it.
func (a *Advisor) recordFailure(pass hosts.Pass, of planner.Account, f *Failure) {
	a.metrics.requests.WithLabelValues(string(f.Kind)).Inc()
	stopped := errors.Is(f, context.Canceled) // A canceled request says nothing about the service.
	trip := !stopped && a.scoped.recordFailure(of, f)
	verdict := hosts.Success
	switch {
	case stopped:
		verdict = hosts.Neutral
	case !trip && !f.ofService():
	case pass.Probe():
		verdict = hosts.Failure
	default: // One failure is no failure of the service.
		verdict = hosts.Neutral
	}
	a.service.End(pass, verdict, time.Time{})
	if trip {
		a.service.Trip(model)
	}
	if until, resting := a.scoped.openUntil(of); resting && f.RetryAt.IsZero() {
		f.RetryAt = until
	}
}

// plannerError converts a failure for the planner. An unavailable service is an UnavailableError;
// an invalid completion fails the session.
func (a *Advisor) plannerError(f *Failure) error {
	switch f.Kind {
	case Unreadable, TooLarge:
		return f
	case Unreachable, TimedOut, Throttled, Denied, Unavailable, BreakerOpen:
	}
	return a.unavailable(f)
}

func (a *Advisor) unavailable(f *Failure) error {
	return &planner.UnavailableError{RetryIn: max(time.Until(f.RetryAt), time.Until(a.service.OpenUntil(model)), 0), Err: f}
}
