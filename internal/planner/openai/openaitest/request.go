package openaitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Request is a client's request, as far as tests read it.
type Request struct {
	Model               string          `json:"model"`
	Messages            []Message       `json:"messages"`
	Tools               []Tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	MaxTokens           int             `json:"max_tokens"`
	Temperature         *float64        `json:"temperature"`
	Stream              bool            `json:"stream"`
}

// Message is one message of a conversation.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

// Tool is one function that a model may call.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      bool            `json:"strict"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// ToolCall is a call in the model's form.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the called function. Arguments should hold a JSON object, but a model may write
// anything.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Forced returns the name of the function that the model must call; empty if it may choose.
func (r Request) Forced() string {
	var choice struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(r.ToolChoice, &choice) != nil {
		return ""
	}
	return choice.Function.Name
}

// Answers returns the contents of all tool messages, oldest first.
func (r Request) Answers() []string {
	var answers []string
	for _, m := range r.Messages {
		if m.Role == "tool" {
			answers = append(answers, m.Content)
		}
	}
	return answers
}

// check returns the error of a strict service for the request.
func (r Request) check() error {
	switch {
	case r.Model == "":
		return errors.New("model is missing")
	case len(r.Messages) == 0:
		return errors.New("messages are missing")
	case r.MaxTokens != 0:
		return errors.New("max_tokens is not supported with this model, use max_completion_tokens")
	case r.MaxCompletionTokens < 1:
		return errors.New("max_completion_tokens is missing")
	case r.Stream:
		return errors.New("stream is not supported here")
	}
	for _, tool := range r.Tools {
		if err := tool.check(); err != nil {
			return fmt.Errorf("tool %q: %w", tool.Function.Name, err)
		}
	}
	return r.checkAnswers()
}

// checkAnswers returns an error unless every call is answered at once and exactly once.
func (r Request) checkAnswers() error {
	var open []string
	for i, m := range r.Messages {
		switch {
		case m.Role == "tool":
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return fmt.Errorf("message %d answers call %q, which is not open", i, m.ToolCallID)
			}
			open = slices.Delete(open, at, at+1)
		case len(open) > 0:
			return fmt.Errorf("message %d follows calls without an answer: %q", i, open)
		case m.Role == "assistant":
			for _, call := range m.ToolCalls {
				open = append(open, call.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("calls without an answer: %q", open)
	}
	return nil
}

// check returns an error unless strict mode accepts the schema.
func (t Tool) check() error {
	if t.Type != "function" || t.Function.Name == "" || !t.Function.Strict {
		return errors.New("not a strict function with a name")
	}
	return checkSchema(t.Function.Parameters)
}

// checkSchema returns an error unless every object of the schema requires all its properties and
// forbids others.
func checkSchema(schema json.RawMessage) error {
	var object struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional *bool                      `json:"additionalProperties"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return err
	}
	if object.Type != "object" {
		return nil
	}
	if object.Additional == nil || *object.Additional {
		return errors.New("additionalProperties must be false")
	}
	if object.Required == nil {
		return errors.New("required must be an array")
	}
	names := slices.Sorted(maps.Keys(object.Properties))
	if required := slices.Sorted(slices.Values(object.Required)); !slices.Equal(names, required) {
		return fmt.Errorf("all properties must be required: %q, but these are: %q", names, required)
	}
	for _, name := range names {
		if err := checkSchema(object.Properties[name]); err != nil {
			return fmt.Errorf("property %q: %w", name, err)
		}
	}
	return nil
}
