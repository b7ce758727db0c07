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

// maxRequests is the maximum number of requests of one session. A model that needs more is in a
// loop.
const maxRequests = 8

// errTokensSpent ends a session that has too few tokens left for another request.
var errTokensSpent = errors.New("the session's tokens were used before the model submitted its analysis")

// conversation is the message history of one session with its token counts. The session's goroutine
// owns it.
type conversation struct {
	config   Config
	messages []openai.ChatCompletionMessage
	// digest is the SHA-256 of the first prompt.
	digest string
	ends   time.Time

	asked int   // requests made
	used  int64 // tokens used by the session
	// known is the reported size of the conversation up to the model's last message, in tokens.
	known int64
	// fresh is an upper bound of the tokens added since.
	fresh int64
	calls int // tool calls

	// proposed reports that the guardrails accepted a proposal.
	proposed bool
	// idle counts consecutive completions without an executable call.
	idle int
}

// newConversation starts a conversation with the system prompt and the snapshot.
func newConversation(c Config, brief string, ends time.Time) *conversation {
	v := &conversation{
		config: c,
		ends:   ends,
		known:  trustedTokens(instructions),
	}
	v.messages = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: instructions}}
	v.addMessage(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: brief})
	sum := sha256.Sum256([]byte(instructions + "\n" + brief))
	v.digest = hex.EncodeToString(sum[:])
	return v
}

// addMessage adds a user or tool message.
func (v *conversation) addMessage(m openai.ChatCompletionMessage) {
	v.messages = append(v.messages, m)
	v.fresh += untrustedTokens(m.Content) + perMessage
}

// addReply adds the model's message and the cost of its request.
func (v *conversation) addReply(m openai.ChatCompletionMessage, cost cost) {
	said := cleanText(m.Content, maxReason)
	if said == "" && len(m.ToolCalls) == 0 {
		said = "(nothing)" // services reject a message without content and calls
	}
	v.messages = append(v.messages, openai.ChatCompletionMessage{
		Role:      openai.ChatMessageRoleAssistant,
		Content:   said,
		ToolCalls: sanitizedCalls(m.ToolCalls),
	})
	v.known, v.fresh = cost.total(), perMessage
}

// turn is the plan of one request: the offered tools and the token limits.
type turn struct {
	tools []tool
	// forced requires the model to submit.
	forced bool
	// prompt is an upper bound of the request's tokens.
	prompt int64
	// answer is the limit of the completion's tokens.
	answer int64
	// closing reports that no further request is possible.
	closing bool
}

// addCost counts a request and its tokens, also if it failed.
func (v *conversation) addCost(cost cost) {
	v.asked++
	v.used += cost.total()
}

// nextTurn plans the next request. It returns errTokensSpent if the session's tokens do not
// suffice. Near the end it offers fewer tools: first no reading, because its results could not be
// used any more, and at last only the submission.
func (v *conversation) nextTurn(now time.Time) (turn, error) {
	prompt := v.known + v.fresh + perRequest
	if v.asked == 0 { // later, known includes the tools
		prompt += trustedTokens(toolText(allTools()))
	}
	left := v.config.SessionTokens - v.used
	t := turn{
		tools:  allTools(),
		prompt: prompt,
		answer: min(v.config.CompletionTokens, left-prompt),
	}
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

// readBudget returns how many tokens the result of a read may take, so that at least one more
// request fits, and two where possible.
func (v *conversation) readBudget() int64 {
	base := v.known + v.fresh + perRequest
	left := v.config.SessionTokens - v.used
	twice := (left-2*minCompletion-shortTurn)/2 - base
	if twice >= shortTurn {
		return twice
	}
	return max(min(left-minCompletion-base, shortTurn), 0)
}

// choice returns the request's tool_choice.
func (t turn) choice() any {
	if t.forced {
		return openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: string(planner.ToolSubmit)}}
	}
	return "required"
}

// toolText returns the text that tools add to a request, for its size.
func toolText(tools []tool) string {
	var all strings.Builder
	for _, t := range tools {
		all.WriteString(string(t.name) + t.description + string(t.schema()))
	}
	return all.String()
}

// addReminder adds a fixed instruction.
func (v *conversation) addReminder(text string) {
	v.messages = append(v.messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text})
}

// normalizedCalls returns calls with IDs of our own and a fixed type, because services validate
// them when the history is sent back.
func normalizedCalls(calls []openai.ToolCall, turn int) []openai.ToolCall {
	tidy := make([]openai.ToolCall, len(calls))
	for i, call := range calls {
		tidy[i] = call
		tidy[i].Index, tidy[i].Type = nil, openai.ToolTypeFunction
		tidy[i].ID = fmt.Sprintf("call_%d_%d", turn, i)
	}
	return tidy
}

// sanitizedCalls returns calls for the history that is sent back to the model. Names and arguments
// are cleaned, because the model may have copied an injected text or a secret into them.
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
