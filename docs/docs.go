// Package docs holds the documentation, for programs that show it.
package docs

import (
	"embed"
	"io/fs"
	"strings"
)

// FS is the pages for users, in Markdown.
//
//go:embed *.md guides/*.md
var FS embed.FS

// GuaranteeCard is what the suite of test/chaos found when it last ran before this was built, as it
// writes it: a list of scenarios.
//
//go:embed guarantee-card.json
var GuaranteeCard []byte

// Pages returns the paths of the pages in [FS], in order.
func Pages() (list []string, err error) {
	err = fs.WalkDir(FS, ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			list = append(list, path)
		}
		return err
	})
	return list, err
}
