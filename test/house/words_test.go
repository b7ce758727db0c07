package house

import (
	"fmt"
	"go/ast"
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gauge counts matches per 1000 words of a text.
type gauge struct {
	pattern *regexp.Regexp
	// floor: the limit is a minimum instead of a maximum.
	floor bool
}

// gauges are signs of plain technical English. They steer the writing and do not replace reading
// it.
func gauges() map[string]gauge {
	words := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }
	return map[string]gauge{
		// A component, process or row is named by its noun, because a reader searches for that
		// noun.
		"persons": {pattern: words(`who|whom|whose|who(?:so)?ever|(?:no|some|any|every)body|(?:some|any|every)one`)},
		// A headless clause stands in for the noun that it avoids.
		"headless": {pattern: words(`(?:what|whatever|whichever) (?:is|are|was|were|has|have|had|it|its|the|an?|they|this|that|can|may|must|` +
			`does|did|do|would|will|c[oa]mes?|stands?|waits?|lies|follows?|fails?|runs?|goes|went|belongs?|remains?|changed|happen(?:s|ed)?)`)},
		// A program returns, reports or records.
		"tell": {pattern: words(`tells?|told|telling`)},
		// A comment gives the reason for the code, because the code itself cannot.
		"reasons": {floor: true, pattern: words(`because|since|therefore|otherwise|so that|for example|e\.g\.`)},
		// The field's own nouns are the terms that an engineer searches for.
		"nouns": {floor: true, pattern: words(`(?:lock|lease|token|fence|queue|batch|transaction|index|snapshot|cache|pool|buffer|deadline|timeout|` +
			`backoff|jitter|heartbeat|semaphore|throughput|latency|percentile|quota|watermark|outbox|goroutine|mutex|connection|partition|replica|` +
			`leader|rate limit|circuit breaker|allow ?list|dead letter|tombstone)(?:s|es)?|retr(?:y|ies|ied)|fencing|concurrency|low-water(?: mark)?|` +
			`idempoten(?:t|ce|cy)|backpressure|round[- ]robin|vacuum|bloat|MVCC`)},
	}
}

// corpus is a body of text and the limits of its gauges, per 1000 words. Limits are ratchets: a
// change may tighten one and never loosen it.
type corpus struct {
	text   func(*testing.T) map[string]string // by file
	limits map[string]float64
}

func corpora() map[string]corpus {
	plain := map[string]float64{"persons": 0.5, "headless": 0.5, "tell": 0.3}
	reasoned := maps.Clone(plain)
	reasoned["reasons"], reasoned["nouns"] = 5, 12
	return map[string]corpus{
		"comments":  {text: comments, limits: reasoned},
		"tests":     {text: testComments, limits: plain},
		"documents": {text: documents, limits: plain},
		"help":      {text: help, limits: plain},
	}
}

// TestProseIsPlain holds comments, documents and the help of the command line to the limits of
// their gauges. Where a maximum is passed, each match is reported with its file.
func TestProseIsPlain(t *testing.T) {
	t.Parallel()
	for name, c := range corpora() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := c.text(t)
			words := 0
			for _, text := range files {
				words += len(word.FindAllString(text, -1))
			}
			for name, limit := range c.limits {
				g := gauges()[name]
				var found []string
				for path, text := range files {
					for _, at := range g.pattern.FindAllStringIndex(text, -1) {
						found = append(found, fmt.Sprintf("%s: ...%s...", path, around(text, at[0], at[1])))
					}
				}
				switch rate := 1000 * float64(len(found)) / float64(max(words, 1)); {
				case g.floor && rate < limit:
					t.Errorf("%s: %.2f per 1000 words; at least %.2f", name, rate, limit)
				case !g.floor && rate > limit:
					t.Errorf("%s: %.2f per 1000 words; at most %.2f:\n%s", name, rate, limit, strings.Join(found, "\n"))
				}
			}
		})
	}
}

// TestGaugesCount applies the patterns to texts with known counts.
func TestGaugesCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]int{
		"Whoever asks tells nobody what is due.":                                         {"persons": 2, "headless": 1, "tell": 1},
		"The start is refused because the token of the lock changed.":                    {"reasons": 1, "nouns": 2},
		"Retries back off with jitter, so that a host never sees idle connections burst": {"reasons": 1, "nouns": 3},
		"The flags show what to call and the whole whorl.":                               {},
	} {
		for name, g := range gauges() {
			if found := g.pattern.FindAllString(text, -1); len(found) != want[name] {
				t.Errorf("%s in %q: found %q, want %d", name, text, found, want[name])
			}
		}
	}
}

var (
	word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	// codeInProse is code within prose: a fenced block, a span, the target of a link.
	codeInProse = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\([^)]*\\)|https?://\\S+")
)

// around returns the words beside a match.
func around(text string, from, to int) string {
	const width = 40
	return strings.Join(strings.Fields(text[max(0, from-width):min(len(text), to+width)]), " ")
}

// goComments returns the comments of hand-written Go files, either of tests or of the product.
func goComments(t *testing.T, tests bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") != tests {
			continue
		}
		var text strings.Builder
		for _, group := range f.ast.Comments {
			text.WriteString(group.Text()) // Without directives and marks.
		}
		files[f.path] = text.String()
	}
	return files
}

// testComments returns the comments of tests.
func testComments(t *testing.T) map[string]string {
	t.Helper()
	return goComments(t, true)
}

// comments returns the comments of hand-written Go and SQL, tests apart.
func comments(t *testing.T) map[string]string {
	t.Helper()
	files := goComments(t, false)
	for path, source := range textFiles(t) {
		if !strings.HasSuffix(path, ".sql") {
			continue
		}
		var text strings.Builder
		for line := range strings.SplitSeq(string(source), "\n") {
			if _, comment, is := strings.Cut(line, "--"); is {
				text.WriteString(comment + "\n")
			}
		}
		files[path] = text.String()
	}
	return files
}

// documents returns the prose of the documents. The changelog is apart, because its entries follow
// the changes.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path, text := range textFiles(t) {
		if strings.HasSuffix(path, ".md") && path != "CHANGELOG.md" && !strings.Contains(path, "testdata/") {
			files[path] = codeInProse.ReplaceAllString(string(text), " ")
		}
	}
	return files
}

// help returns the help of the command line, which stands in struct tags, and the descriptions of
// the contract, from which flags, forms and the tools of agents take theirs.
func help(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range goFiles(t) {
		if !strings.HasPrefix(f.path, "cmd/") || f.test() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, is := n.(*ast.Field)
			if !is || field.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			if err == nil {
				files[f.path] += reflect.StructTag(tag).Get("help") + "\n"
			}
			return true
		})
	}
	described := regexp.MustCompile(`(?m)^\s*(?:description|summary|help|label):(.*(?:\n\s{8,}[^:\n]*$)*)`)
	contract := "api/openapi.yaml"
	for _, found := range described.FindAllSubmatch(textFiles(t)[contract], -1) {
		files[contract] += string(found[1]) + "\n"
	}
	if len(files) < 2 {
		t.Error("found no help of the command line")
	}
	return files
}
