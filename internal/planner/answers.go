package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rubato/internal/runs"
)

// hidden takes the place of what looks like a secret.
const hidden = "[redacted]"

// What looks like a secret wherever it stands: keys with a well-known shape, tokens of HTTP, and what a name introduces.
var (
	keyShape   = regexp.MustCompile(`\b(?:sk|pk|rk|rbt|ghp|gho|xox[abps]|AKIA|AIza|eyJ)[-_A-Za-z0-9.]{12,}`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[-A-Za-z0-9._~+/]{8,}=*`)
	assignment = regexp.MustCompile(`(?i)("?[-\w]*(?:password|passwd|secret|token|api[-_]?key|authorization|credential|private|session|cookie|signature)[-\w]*"?\s*[:=]\s*)("[^"]*"?|[^\s,;&}]+)`)
)

// maxDepth bounds how deep a body is looked into.
const maxDepth = 6

// newResponse returns an answer as an advisor may see it.
func newResponse(run runs.Run) Response {
	r := Response{
		RunID: run.ID, At: run.FinishedAt, Status: string(run.Outcome.Status), StatusCode: run.Outcome.StatusCode, Latency: latencyOf(run),
	}
	r.ContentType, _ = clean(run.Outcome.ContentType, 100)
	body := run.Outcome.Body
	if value, ok := decode(body); ok {
		value = masked(value)
		r.Features = features(value)
		if plain, err := json.Marshal(value); err == nil { // It was JSON a moment ago.
			body = plain
		}
	}
	text := string(body[:min(len(body), 4*MaxBody)]) // Cut before the work, and to size after it.
	text = assignment.ReplaceAllString(bearer.ReplaceAllString(keyShape.ReplaceAllString(text, hidden), "$1 "+hidden), "${1}"+hidden)
	r.Body, r.Truncated = clean(text, MaxBody)
	r.Truncated = r.Truncated || run.Outcome.Truncated || len(body) > 4*MaxBody
	return r
}

// decode reads a body that is one JSON object or array.
func decode(body []byte) (any, bool) {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil, false
	}
	var value any
	return value, json.Unmarshal(trimmed, &value) == nil
}

// masked returns a value whose members with telling names are hidden.
func masked(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if secretName(name) {
				v[name] = hidden
				continue
			}
			v[name] = masked(member)
		}
	case []any:
		for i := range v {
			v[i] = masked(v[i])
		}
	}
	return value
}

// features returns the typed values of a JSON body, breadth by the order of names, down to a depth.
func features(value any) []Feature {
	var found []Feature
	var visit func(path string, v any, depth int)
	visit = func(path string, v any, depth int) {
		if len(found) >= MaxFeatures || depth > maxDepth {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if plainName(name) {
					visit(path+"."+name, v[name], depth+1)
				}
			}
		case []any:
			found = append(found, Feature{Path: path + ".length()", Value: float64(len(v))})
			for i := range min(len(v), 3) {
				visit(path+"["+strconv.Itoa(i)+"]", v[i], depth+1)
			}
		case float64, bool:
			found = append(found, Feature{Path: path, Value: v})
		case string:
			if word(v) {
				found = append(found, Feature{Path: path, Value: v})
			}
		}
	}
	visit("$", value, 0)
	return found[:min(len(found), MaxFeatures)]
}

// plainName reports whether a member's name may stand in a path: a short word, not a sentence for somebody to read.
func plainName(name string) bool {
	return name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// word reports whether a text is one short word, such as the value of an enum.
func word(text string) bool {
	return text != hidden && len(text) <= 64 && !keyShape.MatchString(text) && plainName(strings.ReplaceAll(text, ".", "-"))
}

// String tells a response in short.
func (r Response) String() string {
	return fmt.Sprintf("%s %d, %s, %d features, %d bytes", r.Status, r.StatusCode, r.Latency, len(r.Features), len(r.Body))
}
