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

// session is one analysis.
type session struct {
	advisor *Advisor
	about   planner.Case
	desk    planner.Desk
	talk    *conversation
}

// What ends a session without a verdict.
var (
	errIdle    = errors.New("the model answered twice without a call that could be carried out")
	errTooMany = errors.New("the model made more calls in one answer than a session may make")
)

// maxIdle is how many answers in a row may hold nothing that can be carried out: one may be a slip, and is told so.
const maxIdle = 2

// Advise implements [planner.Advisor]. The values of the newest answer are looked up before the model is asked, so that most sessions
// need no body.
func (a *Advisor) Advise(ctx context.Context, c planner.Case, d planner.Desk) (planner.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	if rest := a.rest(c.Account); rest != nil { // Nothing is worth reading for a session that cannot be held.
		a.metrics.requests.WithLabelValues(string(rest.Kind)).Inc()
		return planner.Verdict{}, a.unavailable(rest)
	}
	s := &session{advisor: a, about: c, desk: d}
	if err := s.begin(ctx); err != nil {
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

// begin writes down the case.
func (s *session) begin(ctx context.Context) error {
	newest, err := s.desk.LatestResponse(ctx)
	if err != nil && errs.CodeOf(err) != errs.NotFound {
		return fmt.Errorf("reading the newest answer: %w", err)
	}
	if len(s.about.Policy) > maxPolicy {
		s.desk.Warn(fmt.Sprintf("the description has %d bytes; the model was shown the first %d", len(s.about.Policy), maxPolicy))
	}
	ends, _ := ctx.Deadline()
	if err := s.present(newest.Features, ends); err != nil {
		return err
	}
	if _, full := s.talk.next(time.Now()); full != nil && len(newest.Features) > 0 {
		s.desk.Warn("the values of the newest answer leave no room to ask, so the model was not shown them")
		return s.present(nil, ends)
	}
	return nil
}

// present opens the conversation with the case and some values of the newest answer.
func (s *session) present(features []planner.Feature, ends time.Time) error {
	text, err := newBrief(s.about, features).text()
	if err != nil {
		return err
	}
	s.talk = open(s.advisor.config, text, ends)
	s.talk.calls = 1
	return nil
}

// step asks once and carries out what the model answers. It returns a verdict where the model submitted one.
func (s *session) step(ctx context.Context) (*planner.Verdict, error) {
	t, err := s.talk.next(time.Now())
	if err != nil {
		return nil, err
	}
	if t.closing && !t.forced {
		s.talk.remind("This is your last answer: propose and call submit_analysis now.")
	}
	message, used, err := s.advisor.ask(ctx, s.about.Account, s.talk, t)
	s.talk.spend(used)
	s.desk.Spend(s.advisor.usage(s.talk, used))
	if err != nil {
		return nil, err
	}
	message.ToolCalls = tidied(message.ToolCalls, s.talk.asked)
	s.talk.heard(message, used)
	return s.carryOut(ctx, t, message.ToolCalls)
}

// usage returns what a request used as the session keeps it.
func (a *Advisor) usage(v *conversation, used cost) planner.Usage {
	dollars := float64(used.prompt)*a.config.PromptPrice + float64(used.completion)*a.config.CompletionPrice // millionths, for prices are per million
	return planner.Usage{
		Model: a.config.Model, PromptDigest: v.digest, PromptTokens: used.prompt, CompletionTokens: used.completion,
		CostMicros: int64(math.Round(dollars)),
	}
}

// carryOut carries out the calls of one answer, in their order.
func (s *session) carryOut(ctx context.Context, t turn, calls []openai.ToolCall) (*planner.Verdict, error) {
	if left := planner.MaxCalls - s.talk.calls; len(calls) > left {
		s.refuse(openai.FunctionCall{}, refusedTooMany, fmt.Sprintf("%d calls in one answer; %d were left", len(calls), left))
		return nil, errTooMany
	}
	var verdict *planner.Verdict
	understood := false
	for _, call := range calls {
		if verdict != nil {
			s.refuse(call.Function, refusedTooMany, "made after the analysis was submitted")
			continue
		}
		submitted, told, err := s.call(ctx, t, call.Function)
		if err != nil {
			return nil, err
		}
		verdict = submitted
		understood = understood || told.Error == ""
		if err := s.tell(call.ID, told); err != nil {
			return nil, err
		}
	}
	if verdict != nil || understood {
		s.talk.idle = 0
		return verdict, nil
	}
	return nil, s.nothing(len(calls))
}

// nothing counts an answer that held nothing to carry out, and ends the session at the second in a row.
func (s *session) nothing(calls int) error {
	if s.talk.idle++; s.talk.idle >= maxIdle {
		return errIdle
	}
	if calls == 0 {
		s.advisor.metrics.refused.WithLabelValues(refusedEmpty).Inc()
		s.desk.Warn("the model answered without a call")
		s.talk.remind("Answer with tool calls only.")
	}
	return nil
}

// told is what the model is told of a call: a result, or what was wrong.
type told struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// call carries out one call. What is wrong with it is told to the model; an error is what ends the session.
func (s *session) call(ctx context.Context, t turn, f openai.FunctionCall) (*planner.Verdict, told, error) {
	tool, offered := find(t.tools, f.Name)
	if !offered {
		return nil, s.refuse(f, refusedUnknown, "there is no such tool now"), nil
	}
	read, err := tool.read(f.Arguments)
	if err != nil {
		return nil, s.refuse(f, refusedArguments, err.Error()), nil
	}
	if tool.name == planner.ToolSubmit {
		return &planner.Verdict{
			Reasoning: read.texts["reasoning"], Confidence: read.numbers["confidence"], NextAnalysisIn: read.minutes("next_analysis_in_minutes"),
		}, told{Result: "done"}, nil
	}
	s.talk.calls++
	result, err := acts()[tool.name](ctx, s, read)
	if err != nil {
		answer, err := s.denied(tool.name, err)
		return nil, answer, err
	}
	return nil, told{Result: result}, nil
}

// refuse notes a call that was not carried out, and returns what the model is told of it.
func (s *session) refuse(f openai.FunctionCall, reason, words string) told {
	s.talk.calls++
	s.advisor.metrics.refused.WithLabelValues(reason).Inc()
	s.desk.Refuse(planner.Call{Tool: planner.Tool(word(f.Name, maxWord)), Arguments: recorded(f.Arguments), Result: words, Refused: true})
	return told{Error: words}
}

// denied returns what the model is told where the desk refused a call, and the error where it could not carry it out.
func (s *session) denied(name planner.Tool, err error) (told, error) {
	if errors.Is(err, planner.ErrTooManyCalls) {
		s.advisor.metrics.refused.WithLabelValues(refusedTooMany).Inc()
		return told{Error: planner.ErrTooManyCalls.Error()}, nil
	}
	user, is := errors.AsType[*errs.Error](err)
	if !is {
		return told{}, fmt.Errorf("carrying out %s: %w", name, err)
	}
	switch user.Code {
	case errs.Invalid, errs.Conflict, errs.NotFound, errs.Malformed:
		s.advisor.metrics.refused.WithLabelValues(refusedRails).Inc()
		words := []string{user.Message}
		for _, field := range user.Fields {
			words = append(words, field.Message)
		}
		return told{Error: word(strings.Join(words, "; "), maxReason)}, nil
	case errs.Precondition, errs.Unauthorized, errs.Forbidden, errs.Exhausted, errs.Unavailable, errs.Internal, errs.Unreadable:
	}
	return told{}, fmt.Errorf("carrying out %s: %w", name, err)
}

// tell adds what came of a call to the conversation.
func (s *session) tell(id string, t told) error {
	text, err := quoted(t)
	if err != nil {
		return err
	}
	s.talk.say(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: text})
	return nil
}
