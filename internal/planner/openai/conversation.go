package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/planner"
	"rubato/internal/planner/untrusted"
)

// maxAsked is how often the model is asked in one session. A model that needs more goes round in circles.
const maxRequests = 8

// errSpent says that a session may not ask once more.
var errTokensSpent = errors.New("the session's tokens were used before the model submitted its analysis")

// conversation is what was said in one session, and what it cost.
type conversation struct {
	config   Config
	messages []openai.ChatCompletionMessage
	digest   string // of what was asked first
	ends     time.Time

	asked int   // requests made
	used  int64 // tokens of the session so far
	known int64 // tokens of the conversation up to the model's last answer
	fresh int64 // bound of what came after it
	calls int   // of tools

	proposed bool // a proposal was let pass
	idle     int  // answers in a row without a call that could be carried out
}

// open begins a conversation about a case.
func newConversation(c Config, brief string, ends time.Time) *conversation {
	v := &conversation{config: c, ends: ends, known: trustedTokens(instructions)}
	v.messages = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: instructions}}
	v.addMessage(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: brief})
	sum := sha256.Sum256([]byte(instructions + "\n" + brief))
	v.digest = hex.EncodeToString(sum[:])
	return v
}

// say adds a message that is not the model's.
func (v *conversation) addMessage(m openai.ChatCompletionMessage) {
	v.messages = append(v.messages, m)
	v.fresh += untrustedTokens(m.Content) + perMessage
}

// heard adds what the model answered, and what the request cost.
func (v *conversation) addReply(m openai.ChatCompletionMessage, cost cost) {
	said := cleanText(m.Content, maxReason)
	if said == "" && len(m.ToolCalls) == 0 {
		said = "(nothing)" // A message without content and calls is one that services refuse.
	}
	v.messages = append(v.messages, openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleAssistant, Content: said, ToolCalls: sanitizedCalls(m.ToolCalls),
	})
	v.known, v.fresh = cost.total(), perMessage
}

// turn is one request: what the model may use, and how long its answer may be.
type turn struct {
	tools   []tool
	forced  bool  // it must submit
	prompt  int64 // bound of the tokens of the request
	answer  int64 // bound of those of the answer
	closing bool  // nothing can be asked after it
}

// spend counts a request and what it cost, whatever came of it.
func (v *conversation) addCost(cost cost) {
	v.asked++
	v.used += cost.total()
}

// next plans the next request, or says that the tokens of the session do not suffice for one. The nearer the end, the less the model
// may do: first it may no longer read, since nothing could come of it, and at last it has to submit.
func (v *conversation) nextTurn(now time.Time) (turn, error) {
	prompt := v.known + v.fresh + perRequest
	if v.asked == 0 { // What is known after a request holds the tools as well.
		prompt += trustedTokens(toolText(allTools()))
	}
	left := v.config.SessionTokens - v.used
	t := turn{tools: allTools(), prompt: prompt, answer: min(v.config.CompletionTokens, left-prompt)}
	if t.answer < minCompletion || v.asked >= maxRequests {
		return turn{}, errTokensSpent
	}
	oneMore := prompt+shortTurn+minCompletion <= left-prompt-shortTurn
	t.closing = !oneMore || v.calls >= planner.MaxCalls-2
	late := v.ends.Sub(now) < v.config.Timeout/4
	switch {
	case late, v.calls >= planner.MaxCalls-1, v.asked == maxRequests-1, t.closing && v.proposed:
		t.tools, t.forced, t.closing = submitTools(), true, true
	case t.closing:
		t.tools = append(proposalTools(), submitTools()...)
	}
	return t, nil
}

// room returns how many tokens what is read now may take, so that the model can still be asked twice where possible, and once in any
// case.
func (v *conversation) readBudget() int64 {
	base := v.known + v.fresh + perRequest
	left := v.config.SessionTokens - v.used
	twice := (left-2*minCompletion-shortTurn)/2 - base
	if twice >= shortTurn {
		return twice
	}
	return max(min(left-minCompletion-base, shortTurn), 0)
}

// choice says what the service should make the model do.
func (t turn) choice() any {
	if t.forced {
		return openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: string(planner.ToolSubmit)}}
	}
	return "required"
}

// described returns what the tools add to a request, for its size.
func toolText(tools []tool) string {
	var all strings.Builder
	for _, t := range tools {
		all.WriteString(string(t.name) + t.description + string(t.schema()))
	}
	return all.String()
}

// remind adds a word of ours.
func (v *conversation) addReminder(text string) {
	v.messages = append(v.messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text})
}

// tidied returns calls that can be said back to any service: each with an ID of its own, a name that is one, and arguments that are
// JSON. What the model really sent is judged, and this is repeated to it.
func normalizedCalls(calls []openai.ToolCall, turn int) []openai.ToolCall {
	tidy := make([]openai.ToolCall, len(calls))
	for i, call := range calls {
		tidy[i] = call
		tidy[i].Index, tidy[i].Type = nil, openai.ToolTypeFunction
		tidy[i].ID = fmt.Sprintf("call_%d_%d", turn, i)
	}
	return tidy
}

// repeated returns calls as they are repeated to the model, which may have been talked into saying what nobody should read.
func sanitizedCalls(calls []openai.ToolCall) []openai.ToolCall {
	list := make([]openai.ToolCall, len(calls))
	for i, call := range calls {
		list[i] = call
		if name, _ := untrusted.Clean(call.Function.Name, maxWord); name != call.Function.Name || name == "" {
			list[i].Function.Name = "unknown"
		}
		clean, cut := untrusted.Clean(call.Function.Arguments, maxArguments)
		if cut || !json.Valid([]byte(clean)) {
			clean = "{}"
		}
		list[i].Function.Arguments = clean
	}
	return list
}
