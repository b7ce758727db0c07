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

// maxDepth bounds how deep a body is looked into.
const maxDepth = 6

// newResponse returns an answer as an advisor may see it.
func newResponse(run runs.Run) Response {
	r := Response{
		RunID: run.ID, At: run.FinishedAt, Status: string(run.Outcome.Status), StatusCode: run.Outcome.StatusCode, Latency: latencyOf(run),
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
			if n, err := v.Float64(); err == nil { // One beyond all bounds is none.
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

// plainName reports whether a member's name may stand in a path: a short word, not a sentence for somebody to read.
func isPathName(name string) bool {
	return name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// word reports whether a text is one short word, such as the value of an enum, and no secret by its looks.
func isShortWord(text string) bool {
	return len(text) <= 64 && isPathName(strings.ReplaceAll(text, ".", "-")) && untrusted.Redact(text) == text
}

// String tells a response in short.
func (r Response) String() string {
	return fmt.Sprintf("%s %d, %s, %d features, %d bytes", r.Status, r.StatusCode, r.Latency, len(r.Features), len(r.Body))
}
