package openai

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/planner"
	"rubato/internal/planner/untrusted"
)

// settleTimeout is how long what a request used may take to be put on record once the request is over.
const settleTimeout = 5 * time.Second

// cost is what a request used, in tokens.
type cost struct {
	prompt, completion int64
}

func (c cost) total() int64 { return c.prompt + c.completion }

// ask asks the model once, within the budget, and returns its message. Whatever comes of it is settled.
func (a *Advisor) ask(ctx context.Context, of planner.Account, v *conversation, t turn) (openai.ChatCompletionMessage, cost, error) {
	if rest := a.rest(of); rest != nil {
		a.metrics.requests.WithLabelValues(string(rest.Kind)).Inc()
		return openai.ChatCompletionMessage{}, cost{}, a.unavailable(rest)
	}
	reserved, err := a.budget.Reserve(ctx, of, t.prompt+t.answer)
	if err != nil {
		return openai.ChatCompletionMessage{}, cost{}, err
	}
	if rest := a.enter(of); rest != nil {
		return openai.ChatCompletionMessage{}, cost{}, errors.Join(a.unavailable(rest), a.settle(ctx, reserved, 0))
	}
	begun := time.Now()
	message, used, failed := a.complete(ctx, v, t)
	if failed != nil {
		a.record(of, failed)
		return message, used, errors.Join(a.told(failed), a.settle(ctx, reserved, used.total()))
	}
	a.metrics.seconds.Observe(time.Since(begun).Seconds())
	a.metrics.requests.WithLabelValues(answered).Inc()
	a.breaker.RecordSuccess()
	a.rests.succeeded(of)
	return message, used, a.settle(ctx, reserved, used.total())
}

// complete sends the request, and says what it used. One that may have been carried out without our learning what it took, used what it
// could have.
func (a *Advisor) complete(ctx context.Context, v *conversation, t turn) (openai.ChatCompletionMessage, cost, *Failure) {
	request := openai.ChatCompletionRequest{
		Model: a.config.Model, Messages: v.messages, Tools: offered(t.tools), ToolChoice: t.choice(),
		MaxCompletionTokens: int(t.answer), ReasoningEffort: a.config.ReasoningEffort,
	}
	if a.config.Temperature != nil {
		// The library leaves out what is zero; the smallest number above it means the same to a model.
		request.Temperature = max(float32(*a.config.Temperature), math.SmallestNonzeroFloat32)
	}
	bound := cost{prompt: t.prompt, completion: t.answer}
	ctx, left := followed(ctx)
	answer, err := a.client.CreateChatCompletion(ctx, request)
	if err != nil {
		f := failure(ctx, err)
		if f.free(left()) {
			bound = cost{}
		}
		return openai.ChatCompletionMessage{}, bound, f
	}
	used := reported(answer.Usage, bound)
	if len(answer.Choices) == 0 {
		return openai.ChatCompletionMessage{}, used, &Failure{Kind: Unreadable}
	}
	return a.without(answer.Choices[0].Message), used, nil
}

// without returns a message without the key, which only a service can have put there.
func (a *Advisor) without(m openai.ChatCompletionMessage) openai.ChatCompletionMessage {
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

// reported returns what the service says that a request used, and the bound where it says nothing that can be believed.
func reported(u openai.Usage, bound cost) cost {
	prompt, completion := int64(u.PromptTokens), int64(u.CompletionTokens)
	if prompt <= 0 || completion < 0 || prompt > maxReported || completion > maxReported {
		return bound
	}
	return cost{prompt: prompt, completion: completion}
}

// settle puts what was used on record, also where the session has ended.
func (a *Advisor) settle(ctx context.Context, r planner.Reservation, used int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return a.budget.Settle(ctx, r, used)
}

// rest returns why the service is not asked for an account at the moment, or nil.
func (a *Advisor) rest(of planner.Account) *Failure {
	if until, shut := a.gate.shut(); shut {
		return &Failure{Kind: Throttled, RetryAt: until}
	}
	if left := a.breaker.RemainingDelay(); left > 0 {
		return &Failure{Kind: Rested, RetryAt: time.Now().Add(left)}
	}
	if until, resting := a.rests.until(of); resting {
		return &Failure{Kind: Rested, RetryAt: until}
	}
	return nil
}

// enter lets a request through to the service, or returns why not: after a rest one request tries, and the others wait for what comes of it.
func (a *Advisor) enter(of planner.Account) *Failure {
	if until, resting := a.rests.enter(of); resting {
		return &Failure{Kind: Rested, RetryAt: until}
	}
	if !a.breaker.TryAcquirePermit() {
		return &Failure{Kind: Rested}
	}
	return nil
}

// record counts a failure against the endpoint, tenant or service that caused it. A half-open breaker must hear what came of its trial.
func (a *Advisor) record(of planner.Account, f *Failure) {
	a.metrics.requests.WithLabelValues(string(f.Kind)).Inc()
	stopped := errors.Is(f, context.Canceled) // This process ended the request, so it says nothing about the service.
	switch {
	case !stopped && a.rests.failed(of, f):
		a.breaker.Open()
	case a.breaker.IsClosed():
	case stopped || f.counts():
		a.breaker.RecordFailure()
	default:
		a.breaker.RecordSuccess()
	}
	if until, resting := a.rests.until(of); resting && f.RetryAt.IsZero() {
		f.RetryAt = until
	}
}

// told returns the failure as the planner knows it: a service that cannot be asked is nobody's fault, one that answers nonsense fails
// the session.
func (a *Advisor) told(f *Failure) error {
	switch f.Kind {
	case Unreadable, TooLarge:
		return f
	case Unreachable, TimedOut, Throttled, Denied, Unavailable, Rested:
	}
	return a.unavailable(f)
}

func (a *Advisor) unavailable(f *Failure) error {
	return &planner.UnavailableError{RetryIn: max(time.Until(f.RetryAt), a.breaker.RemainingDelay(), 0), Err: f}
}
