package house

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module root, relative to this folder.
const root = "../.."

var update = flag.Bool("update", false, "rewrite the parts of documents that this package writes")

// goFile is a parsed source file.
type goFile struct {
	path  string // relative to the module, with slashes
	text  []string
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

// test reports whether the file is a test file or a test helper.
func (f goFile) test() bool {
	dir := filepath.Dir(f.path)
	return strings.HasSuffix(f.path, "_test.go") || strings.HasSuffix(dir, "test") || strings.HasPrefix(dir, "test/") ||
		strings.Contains(dir, "/testdata/")
}

// at returns the position of a node for an error message.
func (f goFile) at(n ast.Node) string {
	return f.path + ":" + strings.TrimPrefix(f.fset.Position(n.Pos()).String(), f.path+":")
}

// height returns the number of lines of a node.
func (f goFile) height(n ast.Node) int {
	return f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
}

// ignored reports whether .gitignore excludes a folder.
func ignored(dir string) bool {
	return slices.Contains([]string{".git", "bin", "dist", "rapid"}, filepath.Base(dir))
}

// textFiles returns every text file of the tree by its path relative to the module.
func textFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(path):
			return filepath.SkipDir
		case !d.Type().IsRegular() || ignored(path): // In a worktree .git is a file.
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && !bytes.Contains(text, []byte{0}) {
			files[filepath.ToSlash(name)] = text
		}
		return err
	})
	require.NoError(t, err)
	return files
}

// goFiles returns every hand-written Go file of the tree.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var list []goFile
	for path, text := range textFiles(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if !ast.IsGenerated(parsed) {
			list = append(list, goFile{
				path: path, text: strings.Split(string(text), "\n"), lines: bytes.Count(text, []byte("\n")), fset: fset, ast: parsed,
			})
		}
	}
	return list
}
