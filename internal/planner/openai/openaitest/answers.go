package openaitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Invocation is a tool call of a model. Arguments is sent as it is, even if it is not JSON.
type Invocation struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Invoke returns a call with arguments that are encoded as JSON.
func Invoke(name string, arguments any) Invocation {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("arguments of %s that cannot be encoded: %v", name, err)) // a mistake in the test
	}
	return Invocation{Name: name, Arguments: string(text)}
}

// Usage is the reported token usage.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// completion is the body of a response.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

// message is Message with explicit nulls, as services write them.
type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// Tools is a model that makes all calls in one completion.
func Tools(calls ...Invocation) Answer { return complete(calling(calls), "tool_calls", measured) }

// ToolsFor is Tools with a reported usage.
func ToolsFor(cost Usage, calls ...Invocation) Answer {
	return complete(calling(calls), "tool_calls", func(*http.Request, message) *Usage { return &cost })
}

// calling returns the message with the calls.
func calling(calls []Invocation) message {
	m := message{Role: "assistant"}
	for i, call := range calls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{
			ID:       fmt.Sprintf("call_%d", i),
			Type:     "function",
			Function: Function(call),
		})
	}
	return m
}

// measured estimates tokens at four bytes each, the average of English and JSON.
func measured(r *http.Request, m message) *Usage {
	text, _ := json.Marshal(m)
	u := Usage{Prompt: int(r.ContentLength) / 4, Completion: len(text) / 4}
	u.Total = u.Prompt + u.Completion
	return &u
}

func uncounted(*http.Request, message) *Usage { return nil }

// Text is a model that answers with text instead of a call.
func Text(text string) Answer {
	return complete(message{Role: "assistant", Content: &text}, "stop", measured)
}

// Refusal is a model that refuses, as safety training makes some models do.
func Refusal(text string) Answer {
	return complete(message{Role: "assistant", Refusal: &text}, "stop", measured)
}

// Filtered is a service after its content filter removed the model's text.
func Filtered() Answer { return complete(message{Role: "assistant"}, "content_filter", measured) }

// Exhausted is a model that reached its token limit in the middle of a call.
func Exhausted(call Invocation) Answer {
	half := call.Arguments[:len(call.Arguments)/2]
	return complete(message{Role: "assistant", ToolCalls: []ToolCall{{
		ID:       "call_half",
		Type:     "function",
		Function: Function{Name: call.Name, Arguments: half},
	}}}, "length", measured)
}

// Empty is a response without choices.
func Empty() Answer {
	return Raw(`{"id":"chatcmpl-0","object":"chat.completion","model":"scripted","choices":[],"usage":null}`)
}

// Uncounted is Tools without usage, as some compatible servers respond.
func Uncounted(calls ...Invocation) Answer { return complete(calling(calls), "tool_calls", uncounted) }

func complete(m message, reason string, cost func(*http.Request, message) *Usage) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := json.Marshal(completion{
			ID:      "chatcmpl-1",
			Object:  "chat.completion",
			Model:   "scripted",
			Choices: []choice{{Message: m, FinishReason: reason}},
			Usage:   cost(r, m),
		})
		if err != nil {
			panic(fmt.Sprintf("an answer that cannot be encoded: %v", err)) // a mistake in the test
		}
		Raw(string(body))(w, r)
	}
}

// Raw responds 200 with any body: truncated JSON, an HTML page, nothing.
func Raw(body string) Answer { return Status(http.StatusOK, body) }

// Problem is the body of an error response.
func Problem(kind, text string) string {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": kind, "code": nil}})
	return string(body)
}

// Status responds with a status, a body, and headers given as alternating names and values.
func Status(status int, body string, headers ...string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // some tests close the client early
	}
}

// RateLimited is a 429 with a Retry-After.
func RateLimited(retryAfter string) Answer {
	return Status(http.StatusTooManyRequests, Problem("rate_limit_error", "slow down"), "Retry-After", retryAfter)
}

// Hang is a service that accepts the request and never responds.
func Hang() Answer {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// Cut sends half of a body under the full Content-Length, then closes the connection.
func Cut(body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Drip sends a byte at a time with pauses, so that the connection is never idle and the response
// never ends.
func Drip(pause time.Duration) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

// Huge responds with a completion with size bytes of content, and counts the written bytes in
// sent. status selects a success or an error.
func Huge(status int, size int64, sent *atomic.Int64) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"`)
		piece := strings.Repeat("a", 64<<10)
		for range size / int64(len(piece)) {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			sent.Add(int64(len(piece)))
		}
		_, _ = io.WriteString(w, `"}}]}`)
	}
}
