package house

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	recordName = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)
	headline   = regexp.MustCompile(`(?m)^# (\d+)\. (.+)$`)
	status     = regexp.MustCompile(`(?m)^Status: (Proposed|Accepted|Superseded by \[\d+\]\(\d{4}-[a-z0-9-]+\.md\)), \d{4}-\d{2}-\d{2}$`)
	proof      = regexp.MustCompile("(?m)^- `([a-z0-9/_-]+)`: (.+)$")
	quoted     = regexp.MustCompile("`([A-Za-z0-9_]+)`")
	link       = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence      = regexp.MustCompile("(?s)```.*?```")
)

// recordSections are the sections of every decision record, in order.
func recordSections() []string {
	return []string{"## Context", "## Decision", "## Alternatives", "## Consequences", "## Verified by"}
}

// records returns the decision records by path.
func records(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, text := range textFiles(t) {
		if recordName.MatchString(name) {
			found[name] = string(text)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// maxRecords bounds the decision records, because a newcomer should read them all: related
// decisions share a record.
const maxRecords = 40

// maxRecordWords bounds a record before its last section: two minutes at 300 words a minute.
const maxRecordWords = 600

func TestDecisionRecordsHaveOneForm(t *testing.T) {
	t.Parallel()
	numbers := map[string]string{}
	found := records(t)
	require.LessOrEqual(t, len(found), maxRecords, "merge related records: see docs/adr/README.md")
	for name, text := range found {
		number := recordName.FindStringSubmatch(name)[1]
		if other, taken := numbers[number]; taken {
			t.Errorf("%s and %s have one number", name, other)
		}
		numbers[number] = name
		title := headline.FindStringSubmatch(text)
		if title == nil || fmt.Sprintf("%04s", title[1]) != number || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s does not begin with its number and title, such as: # %s. Title", name, strings.TrimLeft(number, "0"))
		}
		if !status.MatchString(text) {
			t.Errorf("%s has no line such as: Status: Accepted, 2026-11-21", name)
		}
		body, _, _ := strings.Cut(text, "\n## Verified by\n")
		if words := len(strings.Fields(body)); words > maxRecordWords {
			t.Errorf("%s has %d words before its last section, and %d at most are read in two minutes", name, words, maxRecordWords)
		}
		at := 0
		for _, section := range recordSections() {
			next := strings.Index(text[at:], "\n"+section+"\n")
			if next < 0 {
				t.Errorf("%s lacks %q, or has it in another place than the others", name, section)
				continue
			}
			at += next
		}
	}
	for n := range len(numbers) {
		require.Contains(t, numbers, fmt.Sprintf("%04d", n+1), "a number is missing")
	}
}

// TestDecisionRecordsNameTestsThatExist checks the "Verified by" sections: each line names a folder
// and existing tests in it.
func TestDecisionRecordsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	for name, text := range records(t) {
		_, section, _ := strings.Cut(text, "\n## Verified by\n")
		lines := proof.FindAllStringSubmatch(strings.ReplaceAll(section, "\n  ", " "), -1)
		if len(lines) == 0 {
			t.Errorf("%s names no test", name)
		}
		for _, line := range lines {
			for _, quote := range quoted.FindAllStringSubmatch(line[2], -1) {
				if !slices.Contains(tests[line[1]], quote[1]) {
					t.Errorf("%s: there is no test %s in %s", name, quote[1], line[1])
				}
			}
		}
	}
}

// testNames returns the tests, fuzz tests and benchmarks by folder.
func testNames(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, is := decl.(*ast.FuncDecl); is && fn.Recv == nil {
				names[path.Dir(f.path)] = append(names[path.Dir(f.path)], fn.Name.Name)
			}
		}
	}
	return names
}

func TestIndexOfDecisionRecordsIsComplete(t *testing.T) {
	t.Parallel()
	found := records(t)
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("| | decision | status |\n| --- | --- | --- |\n")
	for _, name := range names {
		title := headline.FindStringSubmatch(found[name])
		standing := status.FindStringSubmatch(found[name])
		require.NotNil(t, title, name)
		require.NotNil(t, standing, name)
		fmt.Fprintf(&b, "| %s | [%s](%s) | %s |\n", recordName.FindStringSubmatch(name)[1], title[2], path.Base(name), standing[1])
	}
	requireWritten(t, part{path: "docs/adr/README.md", begin: "<!-- index: begin -->", end: "<!-- index: end -->"}, b.String())
}

// isPicture reports whether a path is that of an image, which has no text to check.
func isPicture(to string) bool {
	info, err := os.Stat(path.Join(root, to))
	return err == nil && info.Mode().IsRegular() && path.Ext(to) == ".png"
}

// TestLinksLeadSomewhere checks that every relative link of every document leads to an existing
// file and heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	files := textFiles(t)
	for name, text := range files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			page, exists := files[to]
			if !exists && !isFolder(files, to) && !isPicture(to) {
				t.Errorf("%s links to %s, which does not exist", name, found[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(page)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, found[1])
			}
		}
	}
}

func isFolder(files map[string][]byte, dir string) bool {
	for name := range files {
		if strings.HasPrefix(name, dir+"/") || dir == "." {
			return true
		}
	}
	return false
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) []string {
	var list []string
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}\- ]`).ReplaceAllString(strings.ToLower(found[1]), "")
		list = append(list, strings.ReplaceAll(name, " ", "-"))
	}
	return list
}

// TestReadmeNamesTheTestCommand checks that the README, the CI checks and the contributors' page
// name the same command.
func TestReadmeNamesTheTestCommand(t *testing.T) {
	t.Parallel()
	files := textFiles(t)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", ".ci/run", "Makefile"} {
		require.Contains(t, string(files[name]), "go test ./...", name)
	}
}
