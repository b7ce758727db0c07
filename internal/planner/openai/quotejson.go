package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// templateMarks escapes the marks of chat templates that JSON leaves as they are. Marks with angle
// brackets are already escaped, because the encoder escapes HTML by default.
var templateMarks = strings.NewReplacer(`[INST`, `\u005bINST`, `[/INST`, `\u005b/INST`, `[SYSTEM_PROMPT`, `\u005bSYSTEM_PROMPT`, `[TOOL_`, `\u005bTOOL_`,
	`[AVAILABLE_TOOLS`, `\u005bAVAILABLE_TOOLS`)

// quoteJSON encodes a value as JSON in which no text can end its quotes or look like a chat
// template mark. Otherwise a server's tokenizer could read such a text as the start of a system
// message.
func quoteJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encode message for the model: %w", err)
	}
	return templateMarks.Replace(string(text)), nil
}
