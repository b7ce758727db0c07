package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/errs"
	"rubato/internal/planner"
)

// session is one running analysis. One goroutine owns it.
type session struct {
	advisor      *Advisor
	snapshot     planner.Snapshot
	tools        planner.Toolset
	conversation *conversation
}

// Errors that end a session without a verdict.
var (
	errIdle    = errors.New("the model answered twice without a call that could be carried out")
	errTooMany = errors.New("the model made more calls in one answer than a session may make")
)

// maxIdle is the number of consecutive completions without an executable call that ends a session.
// The first one may be a slip, and the model is reminded.
const maxIdle = 2

// Advise implements [planner.Advisor]. The values of the newest response are part of the first
// prompt, so that most sessions need not read a body.
func (a *Advisor) Advise(ctx context.Context, c planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	if rest := a.closedReason(c.Account); rest != nil { // no reads for a session that cannot start
		a.metrics.requests.WithLabelValues(string(rest.Kind)).Inc()
		return planner.Verdict{}, a.unavailable(rest)
	}
	s := &session{
		advisor:  a,
		snapshot: c,
		tools:    d,
	}
	if err := s.prepare(ctx); err != nil {
		return planner.Verdict{}, err
	}
	for {
		verdict, err := s.step(ctx)
		if err != nil {
			return planner.Verdict{}, err
		}
		if verdict != nil {
			return *verdict, nil
		}
	}
}

// prepare builds the first prompt.
func (s *session) prepare(ctx context.Context) error {
	newest, err := s.tools.LatestResponse(ctx)
	if err != nil && errs.CodeOf(err) != errs.NotFound {
		return fmt.Errorf("read newest response: %w", err)
	}
	if len(s.snapshot.Policy) > maxPolicy {
		s.tools.Warn(fmt.Sprintf("the description has %d bytes; the model was shown the first %d", len(s.snapshot.Policy), maxPolicy))
	}
	ends, _ := ctx.Deadline()
	if err := s.openConversation(newest.Features, ends); err != nil {
		return err
	}
	if _, full := s.conversation.nextTurn(time.Now()); full != nil && len(newest.Features) > 0 {
		s.tools.Warn("the values of the newest answer leave no room to ask, so the model was not shown them")
		return s.openConversation(nil, ends)
	}
	return nil
}

// openConversation starts the conversation with the snapshot and values of the newest response.
func (s *session) openConversation(features []planner.Feature, ends time.Time) error {
	text, err := newPrompt(s.snapshot, features).text()
	if err != nil {
		return err
	}
	s.conversation = newConversation(s.advisor.config, text, ends)
	s.conversation.calls = 1
	return nil
}

// step sends one request and executes the calls of the model. It returns a verdict if the model
// submitted one.
func (s *session) step(ctx context.Context) (*planner.Verdict, error) {
	t, err := s.conversation.nextTurn(time.Now())
	if err != nil {
		return nil, err
	}
	if t.closing && !t.forced {
		s.conversation.addReminder("This is your last answer: propose and call submit_analysis now.")
	}
	message, used, err := s.advisor.request(ctx, s.snapshot.Account, s.conversation, t)
	s.conversation.addCost(used)
	s.tools.AddUsage(s.advisor.usage(s.conversation, used))
	if err != nil {
		return nil, err
	}
	message.ToolCalls = normalizedCalls(message.ToolCalls, s.conversation.asked)
	s.conversation.addReply(message, used)
	return s.runCalls(ctx, t, message.ToolCalls)
}

// usage returns the usage of a request for the session record.
func (a *Advisor) usage(v *conversation, used cost) planner.Usage {
	dollars := float64(used.prompt)*a.config.PromptPrice + float64(used.completion)*a.config.CompletionPrice // millionths, because prices are per million
	return planner.Usage{
		Model:            a.config.Model,
		PromptDigest:     v.digest,
		PromptTokens:     used.prompt,
		CompletionTokens: used.completion,
		CostMicros:       int64(math.Round(dollars)),
	}
}

// runCalls executes the calls of one completion in their order.
func (s *session) runCalls(ctx context.Context, t turn, calls []openai.ToolCall) (*planner.Verdict, error) {
	if left := planner.MaxCalls - s.conversation.calls; len(calls) > left {
		s.refuseCall(openai.FunctionCall{}, refusedTooMany, fmt.Sprintf("%d calls in one answer; %d were left", len(calls), left))
		return nil, errTooMany
	}
	var verdict *planner.Verdict
	understood := false
	for _, call := range calls {
		if verdict != nil {
			s.refuseCall(call.Function, refusedTooMany, "made after the analysis was submitted")
			continue
		}
		submitted, reply, err := s.runCall(ctx, t, call.Function)
		if err != nil {
			return nil, err
		}
		verdict = submitted
		understood = understood || reply.Error == ""
		if err := s.addToolReply(call.ID, reply); err != nil {
			return nil, err
		}
	}
	if verdict != nil || understood {
		s.conversation.idle = 0
		return verdict, nil
	}
	return nil, s.countIdle(len(calls))
}

// countIdle counts a completion without an executable call, and ends the session at maxIdle.
func (s *session) countIdle(calls int) error {
	if s.conversation.idle++; s.conversation.idle >= maxIdle {
		return errIdle
	}
	if calls == 0 {
		s.advisor.metrics.refused.WithLabelValues(refusedEmpty).Inc()
		s.tools.Warn("the model answered without a call")
		s.conversation.addReminder("Answer with tool calls only.")
	}
	return nil
}

// toolReply is the reply to a call: a result or an error.
type toolReply struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// runCall executes one call. Mistakes of the model become replies; an error ends the session.
func (s *session) runCall(ctx context.Context, t turn, f openai.FunctionCall) (*planner.Verdict, toolReply, error) {
	tool, offered := findTool(t.tools, f.Name)
	if !offered {
		return nil, s.refuseCall(f, refusedUnknown, "there is no such tool now"), nil
	}
	read, err := tool.parseArguments(f.Arguments)
	if err != nil {
		return nil, s.refuseCall(f, refusedArguments, err.Error()), nil
	}
	if tool.name == planner.ToolSubmit {
		return &planner.Verdict{
			Reasoning:      read.texts["reasoning"],
			Confidence:     read.numbers["confidence"],
			NextAnalysisIn: read.minutes("next_analysis_in_minutes"),
		}, toolReply{Result: "done"}, nil
	}
	s.conversation.calls++
	result, err := toolHandlers()[tool.name](ctx, s, read)
	if err != nil {
		answer, err := s.refusalOf(tool.name, err)
		return nil, answer, err
	}
	return nil, toolReply{Result: result}, nil
}

// refuseCall records a call that was not executed, and returns the reply to the model.
func (s *session) refuseCall(f openai.FunctionCall, reason, words string) toolReply {
	s.conversation.calls++
	s.advisor.metrics.refused.WithLabelValues(reason).Inc()
	s.tools.RecordRefusal(planner.Call{
		Tool:      planner.Tool(cleanText(f.Name, maxWord)),
		Arguments: recordedArguments(f.Arguments),
		Result:    words,
		Refused:   true,
	})
	return toolReply{Error: words}
}

// refusalOf returns the reply for a call that the toolset refused, or the error if it failed.
func (s *session) refusalOf(name planner.Tool, err error) (toolReply, error) {
	if errors.Is(err, planner.ErrTooManyCalls) {
		s.advisor.metrics.refused.WithLabelValues(refusedTooMany).Inc()
		return toolReply{Error: planner.ErrTooManyCalls.Error()}, nil
	}
	user, is := errors.AsType[*errs.Error](err)
	if !is {
		return toolReply{}, fmt.Errorf("carrying out %s: %w", name, err)
	}
	switch user.Code {
	case errs.Invalid, errs.Conflict, errs.NotFound, errs.Malformed:
		s.advisor.metrics.refused.WithLabelValues(refusedRails).Inc()
		words := []string{user.Message}
		for _, field := range user.Fields {
			words = append(words, field.Message)
		}
		return toolReply{Error: cleanText(strings.Join(words, "; "), maxReason)}, nil
	case errs.Precondition, errs.Unauthorized, errs.Forbidden, errs.Exhausted, errs.Unavailable, errs.Internal, errs.Unreadable:
	}
	return toolReply{}, fmt.Errorf("carrying out %s: %w", name, err)
}

// addToolReply adds the reply to the conversation.
func (s *session) addToolReply(id string, t toolReply) error {
	text, err := quoteJSON(t)
	if err != nil {
		return err
	}
	s.conversation.addMessage(openai.ChatCompletionMessage{
		Role:       openai.ChatMessageRoleTool,
		ToolCallID: id,
		Content:    text,
	})
	return nil
}
