package devpg

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// contents is the directory of the package with the server's programs and their files.
const contents = "package/native/"

// unpack extracts the programs and their files into the new directory dir. It cannot write outside
// of dir.
func unpack(archive, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // The server's account reads it.
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	if err := extract(tar.NewReader(zipped), root); err != nil {
		return err
	}
	if err := link(root); err != nil {
		return err
	}
	return openUp(root)
}

// extract writes the files below contents.
func extract(archive *tar.Reader, root *os.Root) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(header.Name, contents)
		if !ok || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(root, name, header.FileInfo().Mode().Perm(), archive); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
}

func writeFile(root *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// link creates the symbolic links of the release. An npm package cannot contain links and therefore
// lists them in a file.
func link(root *os.Root) error {
	text, err := root.ReadFile("pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("reading the list of links: %w", err)
	}
	for _, l := range links {
		source, target := strings.TrimPrefix(l.Source, "native/"), strings.TrimPrefix(l.Target, "native/")
		if err := root.MkdirAll(path.Dir(target), 0o755); err != nil {
			return err
		}
		relative, err := filepath.Rel(path.Dir(target), source)
		if err != nil {
			return err
		}
		if err := root.Symlink(relative, target); err != nil {
			return err
		}
	}
	return nil
}

// openUp lets every user read the files, whatever the umask is, because root runs the server under
// another account.
func openUp(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return root.Chmod(name, mode)
	})
}
