package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/planner"
)

// tool is one function that the model may call. The schema and the parser of the arguments come
// from the same definition, so that they cannot differ. No parameter names an endpoint, because the
// toolset is bound to one.
type tool struct {
	name        planner.Tool
	description string
	parameters  []parameter
}

// parameter is a required argument: a number from low to high, or a text if high is 0.
type parameter struct {
	name        string
	description string
	low, high   float64
}

const (
	longestInterval = 366 * 24 * 3600 // seconds, the limit of endpoints; guardrails and clamps are narrower
	longestLife     = 24 * 60         // minutes, of a hint
	longestPause    = 60              // minutes
)

// readTools returns the tools that read responses.
func readTools() []tool {
	return []tool{
		{planner.ToolLatestResponse, "Newest response with its body", nil},
		{planner.ToolResponseHistory, "Newest responses", []parameter{{"limit", "1-10", 1, planner.MaxResponses}}},
		{planner.ToolSiblingResponses, "Newest response of each sibling", nil},
	}
}

// proposalTools returns the tools that propose changes.
func proposalTools() []tool {
	life := parameter{"ttl_minutes", "life, up to 1440", 0.1, longestLife}
	reason := parameter{"reason", "one sentence", 0, 0}
	return []tool{
		{planner.ToolProposeInterval, "Another interval for a time", []parameter{{"interval_seconds", "1 or more", 1, longestInterval}, life, reason}},
		{planner.ToolProposeNextRun, "One run soon", []parameter{{"in_seconds", "from now", 0, longestInterval}, life, reason}},
		{planner.ToolPauseUntil, "No runs for a time", []parameter{{"minutes", "up to 60", 0.1, longestPause}, reason}},
		{planner.ToolClearHints, "Back to the baseline", []parameter{reason}},
	}
}

// submitTools returns the tool that ends a session.
func submitTools() []tool {
	return []tool{{planner.ToolSubmit, "Ends the session; always last", []parameter{
		{"reasoning", "short", 0, 0}, {"confidence", "0-1", 0, 1}, {"next_analysis_in_minutes", "when to look again", 0, longestLife},
	}}}
}

// allTools returns all tools.
func allTools() []tool { return slices.Concat(readTools(), proposalTools(), submitTools()) }

// schema returns the JSON schema of the arguments in strict mode: every property is required, and
// no other is allowed.
func (t tool) schema() json.RawMessage {
	properties, required := map[string]any{}, make([]string, 0, len(t.parameters))
	for _, p := range t.parameters {
		kind := "number"
		if p.isText() {
			kind = "string"
		}
		required = append(required, p.name)
		properties[p.name] = map[string]any{"type": kind, "description": p.description}
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
	if err != nil {
		panic(fmt.Sprintf("a schema of constants that cannot be encoded: %v", err))
	}
	return schema
}

func (p parameter) isText() bool { return p.high == 0 }

// toolDefinitions converts tools into the form of the API.
func toolDefinitions(tools []tool) []openai.Tool {
	list := make([]openai.Tool, 0, len(tools))
	for _, t := range tools {
		list = append(list, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name:        string(t.name),
			Description: t.description,
			Strict:      true,
			Parameters:  t.schema(),
		}})
	}
	return list
}

// findTool returns the tool with a name.
func findTool(tools []tool, name string) (tool, bool) {
	at := slices.IndexFunc(tools, func(t tool) bool { return string(t.name) == name })
	if at < 0 {
		return tool{}, false
	}
	return tools[at], true
}
