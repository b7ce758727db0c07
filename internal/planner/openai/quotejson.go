package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// marked breaks marks of chat templates that JSON lets pass. Those with angle brackets are broken by JSON's own escapes for pages of
// HTML, which the encoder writes unasked.
var templateMarks = strings.NewReplacer(`[INST`, `\u005bINST`, `[/INST`, `\u005b/INST`, `[SYSTEM_PROMPT`, `\u005bSYSTEM_PROMPT`, `[TOOL_`, `\u005bTOOL_`,
	`[AVAILABLE_TOOLS`, `\u005bAVAILABLE_TOOLS`)

// quoted returns value as JSON in which no text can end its quotes, nor be taken for a mark by which a template tells who speaks: what
// a server's tokenizer would read as the start of a system message is a run of plain characters here.
func quoteJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing down for the model: %w", err)
	}
	return templateMarks.Replace(string(text)), nil
}
