package planner

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rubato/internal/planner/untrusted"
	"rubato/internal/runs"
)

// maxDepth is the maximum nesting depth at which features are read.
const maxDepth = 6

// newResponse converts the response of a run into the form for advisors.
func newResponse(run runs.Run) Response {
	r := Response{
		RunID:      run.ID,
		At:         run.FinishedAt,
		Status:     string(run.Outcome.Status),
		StatusCode: run.Outcome.StatusCode,
		Latency:    latencyOf(run),
	}
	r.ContentType = clean(run.Outcome.ContentType, 100)
	body := string(run.Outcome.Body)
	if value, is := untrusted.JSON(body); is {
		r.Features = features(value)
	}
	r.Body, r.Truncated = untrusted.Clean(body, MaxBody)
	r.Truncated = r.Truncated || run.Outcome.Truncated
	return r
}

// features returns the typed values of a JSON body, depth first by member name, down to maxDepth.
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
				if isPathName(name) {
					visit(path+"."+name, v[name], depth+1)
				}
			}
		case []any:
			found = append(found, Feature{Path: path + ".length()", Value: float64(len(v))})
			for i := range min(len(v), 3) {
				visit(path+"["+strconv.Itoa(i)+"]", v[i], depth+1)
			}
		case bool:
			found = append(found, Feature{Path: path, Value: v})
		case json.Number:
			if n, err := v.Float64(); err == nil { // out of the range of float64
				found = append(found, Feature{Path: path, Value: n})
			}
		case string:
			if isShortWord(v) {
				found = append(found, Feature{Path: path, Value: v})
			}
		}
	}
	visit("$", value, 0)
	return found[:min(len(found), MaxFeatures)]
}

// isPathName reports whether a member's name may be part of a path. Only short words qualify,
// because a sentence might be a prompt injection.
func isPathName(name string) bool {
	return name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// isShortWord reports whether a text is one short word, such as an enum value, and does not look
// like a secret.
func isShortWord(text string) bool {
	return len(text) <= 64 && isPathName(strings.ReplaceAll(text, ".", "-")) && untrusted.Redact(text) == text
}

// String summarizes a response without its body.
func (r Response) String() string {
	return fmt.Sprintf("%s %d, %s, %d features, %d bytes", r.Status, r.StatusCode, r.Latency, len(r.Features), len(r.Body))
}
